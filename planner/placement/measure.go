package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// The leaves that are measured are sums of rates over ever more series of a day's
// samples, as dashboards have them; over a few series of some hours; and over very
// many of a single chunk.
const (
	shortSamples = synthetic.ChunkSamples
	someSamples  = 8 * synthetic.ChunkSamples
	usualSamples = 48 * synthetic.ChunkSamples

	someSeries = 32
	mostSeries = someSeries << 8 // of a day's samples: 47 M of them
	times      = 4               // as many series, each time
)

// enough is how long a leaf is that surely keeps an executor busy.
const enough = 15 * time.Millisecond

// shows is how many times longer than others one leaf takes whose work shows.
const shows = 3

// measure finds the constants, from whole leaves.
func measure(ctx context.Context, x *gpuexec.Executor, cpu *cpuexec.Executor) (c Constants, err error) {
	m := &measuring{ctx: ctx, made: map[[2]int]*selection.Selection{}}
	device := m.costs(x.Run)
	cores := m.costs(cpu.Run)
	c = Constants{Device: device, Cores: cores, Link: x.Link(), Copy: m.copying(x)}
	if m.err == nil && !c.sound() {
		m.err = fmt.Errorf("the times cannot be: %+v", c)
	}
	return c, m.err
}

// evaluator evaluates a job.
type evaluator func(context.Context, cpuexec.Job) (*plan.Matrix, error)

// measuring takes times until there is an error.
type measuring struct {
	ctx  context.Context
	made map[[2]int]*selection.Selection // by series, and samples of each
	err  error
}

// costs measures what an executor takes.
func (m *measuring) costs(run evaluator) Costs {
	usual := func(series int) timed { return m.leaf(run, series, usualSamples, usualStep) }
	f := measurements{Least: m.leaf(run, 1, someSamples, usualStep), Small: m.leaf(run, someSeries, someSamples, usualStep)}
	if f.Small.Took < shows*f.Least.Took {
		f.Least = f.Small // more like those that there are
	}
	var medium, large, larger timed
	for n := someSeries; n <= mostSeries && m.err == nil; n *= times {
		medium, large, larger = large, larger, usual(n)
		if f.Small.Took < shows*f.Least.Took {
			f.Small = larger
		}
		if large.Took > 0 && larger.Took > enough {
			break
		}
	}
	busiest := larger
	if larger.Took > enough {
		busiest = large // this would take too long
	}
	more := m.leaf(run, int(busiest.Series), usualSamples, usualStep/times)
	short := m.leaf(run, int(large.Samples/shortSamples), shortSamples, usualStep)
	f.Busy = []timed{large, larger, more, short}
	if medium.Took > 0 {
		f.Busy = append(f.Busy, medium)
	}
	return f.fit()
}

// copying measures what a leaf takes longer of which no chunk is on the device, but
// for copying their bytes.
func (m *measuring) copying(x *gpuexec.Executor) time.Duration {
	s := m.selection(someSeries, someSamples)
	if m.err != nil {
		return 0
	}
	job := rates(s, grid(someSamples, usualStep))
	there := m.median(func() error { _, err := x.Run(m.ctx, job); return err })
	missing := m.median(func() error { x.Forget(s); _, err := x.Run(m.ctx, job); return err })
	bytes := 0
	for i := range s.NumSeries() {
		for _, c := range s.Chunks(i) {
			bytes += int(c.Len)
		}
	}
	return max(0, missing-there-time.Duration(float64(bytes)/x.Link()*1e9))
}

// leaf measures a leaf.
func (m *measuring) leaf(run evaluator, series, samples int, step int64) timed {
	s, g := m.selection(series, samples), grid(samples, step)
	if m.err != nil {
		return timed{}
	}
	took := m.median(func() error { _, err := run(m.ctx, rates(s, g)); return err })
	return timed{Series: int64(series), Samples: s.NumSamples(), Windows: int64(series) * int64(g.Steps), Took: took}
}

// selection makes the series of a leaf, once.
func (m *measuring) selection(series, samples int) *selection.Selection {
	key := [2]int{series, samples}
	if m.made[key] == nil && m.err == nil {
		m.made[key], m.err = synthetic.Counters("measured", series, samples)
	}
	return m.made[key]
}

// A leaf is timed up to so many times, while that takes no longer than patience.
const (
	rounds   = 7
	patience = 25 * time.Millisecond
)

// median is the median time that f takes, without its first call.
func (m *measuring) median(f func() error) time.Duration {
	var took []time.Duration
	begin := time.Now()
	for k := 0; k <= rounds && m.err == nil && (k < 3 || time.Since(begin) < patience); k++ {
		start := time.Now()
		m.err = f()
		took = append(took, max(1, time.Since(start)))
	}
	took = took[min(1, len(took)):]
	if m.err != nil {
		return 0
	}
	slices.Sort(took)
	return took[(len(took)-1)/2]
}

// usualStep is the step of most measured leaves, and width the width of their windows,
// in ms.
const usualStep, width = 60_000, 300_000

// grid is the steps of a query over series of so many samples.
func grid(samples int, step int64) plan.Grid {
	return plan.Grid{Start: synthetic.Start + step, Interval: step, Steps: samples * synthetic.Interval / int(step)}
}

// rates is the job of a sum of rates over a selection.
func rates(s *selection.Selection, g plan.Grid) cpuexec.Job {
	w := &plan.Window{Scan: &plan.Scan{Text: "measured"}, Func: plan.Windows["rate"], Width: width, Text: "rate(measured)"}
	return cpuexec.Job{
		Node: &plan.Aggregate{Func: plan.Aggregates["sum"], Input: w, Text: "sum(rate(measured))"}, Grid: g,
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return s, nil, nil
		},
	}
}
