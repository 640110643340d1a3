package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// Crossover is from how many samples on a GPU is faster than the cores of its machine, and how good
// the estimates are that leaves go by.
//
// The query is sum(rate(m_total[5m])) at a step of a minute: first more samples a series, then
// more series. Times are from the job to the matrix. The cores decode the chunks each time.
// Estimates are those of the constants that are measured at start, before anything is learned.
type Crossover struct {
	Constants placement.Constants `json:"constants"`
	Points    []Point             `json:"points"`
}

// Point is how long a sum of rates takes over a number of samples, in ms, and how long it was
// expected to take.
type Point struct {
	Row
	Windows          int64   `json:"windows"`
	ExpectedCores    float64 `json:"expected_cores_ms"`
	ExpectedNot      float64 `json:"expected_gpu_not_resident_ms"`
	ExpectedResident float64 `json:"expected_gpu_resident_ms"`
}

// sizes are series and samples of each, about √10 times as many samples from one to the next.
var sizes = [][2]int{
	{10, 100}, {32, 100}, {100, 100}, {32, 1000}, {100, 1000}, {320, 1000}, {1000, 1000}, {320, 10_000},
	{1000, 10_000}, {3200, 10_000}, {10_000, 10_000}, {32_000, 10_000}, {100_000, 10_000},
}

// crossover measures every size up to the most samples.
func (r *rig) crossover(ctx context.Context, most float64, save func(*Crossover)) error {
	c := &Crossover{Constants: r.gpus.Constants()}
	for _, s := range sizes {
		if float64(s[0])*float64(s[1]) > most {
			break
		}
		p, err := r.point(ctx, s[0], s[1])
		if err != nil {
			return fmt.Errorf("%d series of %d samples: %w", s[0], s[1], err)
		}
		c.Points = append(c.Points, *p)
		save(c)
		r.log("%+v", *p)
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

func (r *rig) point(ctx context.Context, series, samples int) (*Point, error) {
	sel, err := synthetic.Counters("m_total", series, samples)
	if err != nil {
		return nil, err
	}
	defer r.gpus.Forget(sel)
	g := &gpu{gpus: r.gpus}
	cpu := cpuexec.New(cpuexec.Options{})
	onCores, onGPU := job(sel, samples), job(sel, samples)
	onGPU.Accelerator = g
	answers := map[bool]compare.Answer{}
	s := subject{[]*selection.Selection{sel}, func(gpu bool) error {
		j := onCores
		if gpu {
			j = onGPU
		}
		m, err := cpu.Run(ctx, j)
		if err == nil {
			answers[gpu] = compare.Of(m)
		}
		return err
	}}
	p := &Point{}
	p.sizes(s.over)
	if err := r.onCores(&p.Row, s); err != nil {
		return nil, err
	}
	if err := r.onGPU(&p.Row, s); err != nil {
		return nil, err
	}
	onCoresAnswer, onGPUAnswer := answers[false], answers[true]
	if d := compare.Differ(&onCoresAnswer, &onGPUAnswer, 0); d != nil {
		return nil, fmt.Errorf("%s on the cores, %s on the GPU: %s", d.Want, d.Got, d.What)
	}
	p.Windows = g.size.Windows
	p.ExpectedCores, p.ExpectedNot = expected(r.gpus.Constants(), g.size)
	g.size.Missing = 0
	_, p.ExpectedResident = expected(r.gpus.Constants(), g.size)
	return p, nil
}

// expected is what a leaf is estimated to take before anything is learned, in ms.
func expected(c placement.Constants, size placement.Size) (cores, device float64) {
	e := c.Estimate(size)
	return 1000 * e[placement.Cores].Seconds(), 1000 * e[placement.Device].Seconds()
}

// job is sum(rate(m_total[5m])) at every minute.
func job(sel *selection.Selection, samples int) cpuexec.Job {
	w := &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "m_total"}}, Func: window.Named("rate"), Width: 300_000, Origin: plan.Origin{Text: "rate(m_total[5m])"}}
	const step = 60_000
	return cpuexec.Job{
		Node: &plan.Aggregate{Func: aggregate.Named("sum"), Input: w, Origin: plan.Origin{Text: "sum(rate(m_total[5m]))"}},
		Grid: plan.Grid{Start: synthetic.Start + step, Interval: step, Steps: samples * synthetic.Interval / step},
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	}
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

// table is the figures for reading.
func (c *Crossover) table() *report.Table {
	from := func(cores, device func(*Point) float64) string {
		if n := crossing(c.Points, cores, device); n > 0 {
			return fmt.Sprintf("%.2g million", n/1e6)
		}
		return "no number of"
	}
	cores, estimated := func(p *Point) float64 { return p.Cores }, func(p *Point) float64 { return p.ExpectedCores }
	t := &report.Table{
		Title: fmt.Sprintf("sum(rate(m_total[5m])), ms, estimates in parentheses. A GPU is faster from %s samples on, %s where chunks are resident; expected were %s and %s:",
			from(cores, func(p *Point) float64 { return p.NotResident }), from(cores, func(p *Point) float64 { return p.Resident }),
			from(estimated, func(p *Point) float64 { return p.ExpectedNot }), from(estimated, func(p *Point) float64 { return p.ExpectedResident })),
		Head: []string{"samples", "series", "cores", "GPU, not resident", "GPU, resident"},
	}
	for _, p := range c.Points {
		cell := func(ms, expected float64) string {
			return fmt.Sprintf("%s (%s)", report.Number(ms), report.Number(expected))
		}
		t.Add(fmt.Sprint(p.Samples), fmt.Sprint(p.Series), cell(p.Cores, p.ExpectedCores), cell(p.NotResident, p.ExpectedNot), cell(p.Resident, p.ExpectedResident))
	}
	return t
}
