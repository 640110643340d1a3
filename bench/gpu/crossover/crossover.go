// Package crossover measures from how many samples on a GPU is faster than the cores
// of its machine, and how good the estimates are that leaves go by.
//
// The query is sum(rate(m_total[5m])) at a step of a minute, over counters with a
// sample every 15 s: first more samples a series, then more series. Times are from the
// job to the matrix. Resident, the chunks are on the device; else in page-locked memory
// of the host. The cores decode the chunks each time. Estimates are those of the
// constants that are measured at start, before anything is learned.
package crossover

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/bench/gpu/measure"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// Options say how much to measure.
type Options struct {
	GPUs   *placement.Placer
	Most   float64 // samples
	Rounds int
	Budget time.Duration // for the rounds of one figure
	Log    func(format string, args ...any)
}

// Result is the figures by size, and where they cross.
type Result struct {
	Constants placement.Constants `json:"constants"`
	Points    []Point             `json:"points"`
	// The samples from which on the device is faster, between two sizes by a straight
	// line in logarithms; 0 where the two do not cross.
	NotResident float64 `json:"gpu_faster_from_samples_not_resident"`
	Resident    float64 `json:"gpu_faster_from_samples_resident"`
	// The same of the estimates.
	ExpectedNotResident float64 `json:"expected_from_samples_not_resident"`
	ExpectedResident    float64 `json:"expected_from_samples_resident"`
}

// Point is how long a sum of rates takes over so many samples, in ms, and how long it
// was expected to.
type Point struct {
	Series           int     `json:"series"`
	Samples          int64   `json:"samples"`
	Windows          int64   `json:"windows"`
	Cores            float64 `json:"cores_ms"`
	NotResident      float64 `json:"gpu_not_resident_ms"`
	Resident         float64 `json:"gpu_resident_ms"`
	ExpectedCores    float64 `json:"expected_cores_ms"`
	ExpectedNot      float64 `json:"expected_gpu_not_resident_ms"`
	ExpectedResident float64 `json:"expected_gpu_resident_ms"`
}

// shapes are series and samples of each, about √10 times as many samples from one to
// the next.
var shapes = [][2]int{
	{10, 100}, {32, 100}, {100, 100}, {32, 1000}, {100, 1000}, {320, 1000}, {1000, 1000}, {320, 10_000},
	{1000, 10_000}, {3200, 10_000}, {10_000, 10_000}, {32_000, 10_000}, {100_000, 10_000},
}

// Measure measures every size.
func Measure(ctx context.Context, o Options, save func(*Result)) error {
	r := &Result{Constants: o.GPUs.Constants()}
	for _, s := range shapes {
		if float64(s[0])*float64(s[1]) > o.Most {
			break
		}
		p, err := o.point(ctx, s[0], s[1])
		if err != nil {
			return fmt.Errorf("%d series of %d samples: %w", s[0], s[1], err)
		}
		r.Points = append(r.Points, *p)
		r.cross()
		save(r)
		o.Log("%+v", *p)
	}
	return nil
}

// gpu evaluates leaves on a GPU in any case, and notes how much work they are.
type gpu struct {
	gpus *placement.Placer
	size placement.Size
}

// Aggregates implements cpuexec.Accelerator.
func (g *gpu) Aggregates(*plan.Aggregate) bool { return true }

// Accepts implements cpuexec.Accelerator.
func (g *gpu) Accepts(plan.Node) bool { return true }

// Evaluate implements cpuexec.Accelerator.
func (g *gpu) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error) (cpuexec.Outcome, error) {
	g.size = placement.SizeOf(l)
	o, err := g.gpus.Evaluate(ctx, l, consume, true)
	if err == nil && o.Declined != "" {
		err = fmt.Errorf("it is left to the cores: %s", o.Declined)
	}
	return o.Outcome.Outcome, err
}

// OnCores implements cpuexec.Accelerator.
func (g *gpu) OnCores(*cpuexec.Leaf, time.Duration) {}

func (o Options) point(ctx context.Context, series, samples int) (*Point, error) {
	sel, err := synthetic.Counters("m_total", series, samples)
	if err != nil {
		return nil, err
	}
	defer o.GPUs.Forget(sel)
	g := &gpu{gpus: o.GPUs}
	cpu := cpuexec.New(cpuexec.Options{})
	onCores, onGPU := job(sel, samples), job(sel, samples)
	onGPU.Accelerator = g
	var want, got *plan.Matrix
	take := func(to *float64, m **plan.Matrix, j cpuexec.Job, before func()) {
		if err == nil {
			*to, err = measure.Median(o.Rounds, o.Budget, func() (err error) { before(); *m, err = cpu.Run(ctx, j); return err })
		}
	}
	p := &Point{Series: series, Samples: sel.NumSamples()}
	take(&p.Cores, &want, onCores, func() {})
	take(&p.NotResident, &got, onGPU, func() { o.GPUs.Forget(sel) })
	take(&p.Resident, &got, onGPU, func() {})
	if err == nil {
		err = same(want, got)
	}
	if err != nil {
		return nil, err
	}
	p.Windows = g.size.Windows
	p.ExpectedCores, p.ExpectedNot = expected(o.GPUs.Constants(), g.size)
	g.size.Missing = 0
	_, p.ExpectedResident = expected(o.GPUs.Constants(), g.size)
	return p, nil
}

// expected is what a leaf is estimated to take before anything is learned, in ms.
func expected(c placement.Constants, size placement.Size) (cores, device float64) {
	e := c.Estimate(size)
	return 1000 * e[placement.Cores].Seconds(), 1000 * e[placement.Device].Seconds()
}

// job is sum(rate(m_total[5m])) at every minute.
func job(sel *selection.Selection, samples int) cpuexec.Job {
	w := &plan.Window{Scan: &plan.Scan{Text: "m_total"}, Func: window.Named("rate"), Width: 300_000, Text: "rate(m_total[5m])"}
	const step = 60_000
	return cpuexec.Job{
		Node: &plan.Aggregate{Func: aggregate.Named("sum"), Input: w, Text: "sum(rate(m_total[5m]))"},
		Grid: plan.Grid{Start: synthetic.Start + step, Interval: step, Steps: samples * synthetic.Interval / step},
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	}
}

// same says how two matrices of one row differ, bit by bit.
func same(want, got *plan.Matrix) error {
	if len(want.Rows) != 1 || len(got.Rows) != 1 {
		return fmt.Errorf("%d and %d rows", len(want.Rows), len(got.Rows))
	}
	w, g := want.Rows[0].Values, got.Rows[0].Values
	if len(w) != len(g) {
		return fmt.Errorf("%d values on the cores, %d on the GPU", len(w), len(g))
	}
	for i := range w {
		if math.Float64bits(w[i]) != math.Float64bits(g[i]) {
			return fmt.Errorf("value %d is %g on the cores, %g on the GPU", i, w[i], g[i])
		}
	}
	return nil
}

// cross finds where the figures cross.
func (r *Result) cross() {
	at := func(cores, device func(*Point) float64) float64 { return crossing(r.Points, cores, device) }
	cores := func(p *Point) float64 { return p.Cores }
	expected := func(p *Point) float64 { return p.ExpectedCores }
	r.NotResident = at(cores, func(p *Point) float64 { return p.NotResident })
	r.Resident = at(cores, func(p *Point) float64 { return p.Resident })
	r.ExpectedNotResident = at(expected, func(p *Point) float64 { return p.ExpectedNot })
	r.ExpectedResident = at(expected, func(p *Point) float64 { return p.ExpectedResident })
}

// crossing is the number of samples from which on device is less than cores.
func crossing(points []Point, cores, device func(*Point) float64) float64 {
	// How many times as long the device takes, as a logarithm.
	gap := func(p *Point) float64 { return math.Log(device(p) / cores(p)) }
	n := len(points)
	for n > 0 && gap(&points[n-1]) < 0 {
		n--
	}
	if n == 0 || n == len(points) {
		return 0
	}
	a, b := &points[n-1], &points[n]
	part := gap(a) / (gap(a) - gap(b))
	return math.Exp(math.Log(float64(a.Samples)) + part*math.Log(float64(b.Samples)/float64(a.Samples)))
}

// Table is the figures for reading.
func (r *Result) Table() measure.Table {
	t := measure.Table{
		Title: fmt.Sprintf("sum(rate(m_total[5m])), ms, estimates in parentheses. A GPU is faster from %s samples on, %s where chunks are resident; expected were %s and %s:",
			million(r.NotResident), million(r.Resident), million(r.ExpectedNotResident), million(r.ExpectedResident)),
		Head: []string{"samples", "series", "cores", "GPU, not resident", "GPU, resident"},
	}
	for _, p := range r.Points {
		cell := func(ms, expected float64) string {
			return fmt.Sprintf("%s (%s)", measure.Number(ms), measure.Number(expected))
		}
		t.Add(fmt.Sprint(p.Samples), fmt.Sprint(p.Series), cell(p.Cores, p.ExpectedCores), cell(p.NotResident, p.ExpectedNot), cell(p.Resident, p.ExpectedResident))
	}
	return t
}

func million(samples float64) string {
	if samples == 0 {
		return "no number of"
	}
	return fmt.Sprintf("%.2g million", samples/1e6)
}
