package placement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// All leaves that are measured are sums of rates. Their sizes are:
//
//	series                    samples of each   mostly tells
//	1, someSeries             someSamples       Fixed and Slow: hardly any work, little work
//	someSeries to mostSeries  usualSamples      Sample and Ramp: a day, as dashboards have it
//	the same, more steps      usualSamples      Window
//	as many samples           shortSamples      Series: many series of a single chunk
const (
	shortSamples = synthetic.ChunkSamples
	someSamples  = 8 * synthetic.ChunkSamples
	usualSamples = 48 * synthetic.ChunkSamples

	someSeries = 32
	mostSeries = someSeries << 8 // with usualSamples each, 47 M samples
	times      = 4               // as many series, each time
)

// busyTime is how long a leaf takes that surely keeps an executor busy.
const busyTime = 15 * time.Millisecond

// clearlyMore is how many times longer than another one a leaf must take so that its work,
// and not noise, is the difference.
const clearlyMore = 3

// measure finds the constants by timing whole leaves on both executors. It takes under a second.
func measure(ctx context.Context, x *pipeline.Machine, cpu *cpuexec.Executor) (c Constants, err error) {
	m := newMeasuring(ctx)
	device := rates(cpu, &gpuexec.Alone{Machine: x})
	c = Constants{Device: m.costs(device), Cores: m.costs(rates(cpu, nil)), Link: x.Link(), Copy: m.copying(x, device)}
	return c, m.check(&c)
}

// evaluator does what is measured over a selection, at the steps of a grid.
type evaluator func(context.Context, *selection.Selection, plan.Grid) error

// measuring times leaves until there is an error.
type measuring struct {
	ctx  context.Context
	made map[[2]int]*selection.Selection // by series, and samples of each
	err  error
}

func newMeasuring(ctx context.Context) *measuring {
	return &measuring{ctx: ctx, made: map[[2]int]*selection.Selection{}}
}

// check says what is wrong with what was measured.
func (m *measuring) check(c *Constants) error {
	if m.err == nil && !c.sound() {
		m.err = fmt.Errorf("the times cannot be: %+v", *c)
	}
	return m.err
}

// costs measures what an executor takes.
func (m *measuring) costs(run evaluator) Costs {
	usual := func(series int) timed { return m.leaf(run, series, usualSamples, usualStep) }
	f := measurements{Least: m.leaf(run, 1, someSamples, usualStep), Small: m.leaf(run, someSeries, someSamples, usualStep)}
	if f.Small.Took < clearlyMore*f.Least.Took {
		f.Least = f.Small // it is more like the leaves of real queries
	}
	var medium, large, larger timed
	for n := someSeries; n <= mostSeries && m.err == nil; n *= times {
		medium, large, larger = large, larger, usual(n)
		if f.Small.Took < clearlyMore*f.Least.Took {
			f.Small = larger
		}
		if large.Took > 0 && larger.Took > busyTime {
			break
		}
	}
	busiest := larger
	if larger.Took > busyTime {
		busiest = large // larger, at more steps, would take too long
	}
	more := m.leaf(run, int(busiest.Series), usualSamples, usualStep/times)
	short := m.leaf(run, int(large.Samples/shortSamples), shortSamples, usualStep)
	f.Busy = []timed{large, larger, more, short}
	if medium.Took > 0 {
		f.Busy = append(f.Busy, medium)
	}
	return f.fit()
}

// copying measures how much longer a leaf takes if no chunk of it is on the device, less
// the time in which the link copies the bytes of the chunks.
func (m *measuring) copying(x *pipeline.Machine, run evaluator) time.Duration {
	s := m.selection(someSeries, someSamples)
	if m.err != nil {
		return 0
	}
	g := grid(someSamples, usualStep)
	there := m.median(func() error { return run(m.ctx, s, g) })
	missing := m.median(func() error { x.Forget(s); return run(m.ctx, s, g) })
	bytes := 0
	for i := range s.NumSeries() {
		for _, c := range s.Chunks(i) {
			bytes += int(c.Len)
		}
	}
	return max(0, missing-there-time.Duration(float64(bytes)/x.Link()*1e9))
}

// leaf times a leaf of so many series, with so many samples each, at a step in ms.
func (m *measuring) leaf(run evaluator, series, samples int, step int64) timed {
	s, g := m.selection(series, samples), grid(samples, step)
	if m.err != nil {
		return timed{}
	}
	took := m.median(func() error { return run(m.ctx, s, g) })
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

// A leaf is timed at most rounds times, and no more once that took patience.
const (
	rounds   = 7
	patience = 25 * time.Millisecond
)

// median is the median of the times that f takes. Its first call does not count.
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

// rates evaluates sums of rates, whose leaves an accelerator computes if there is one.
func rates(cpu *cpuexec.Executor, x offload.Accelerator) evaluator {
	return func(ctx context.Context, s *selection.Selection, g plan.Grid) error {
		job := sumOfRates(s, g)
		job.Accelerator = x
		_, err := cpu.Run(ctx, job)
		return err
	}
}

// sumOfRates is the job of a sum of rates over a selection.
func sumOfRates(s *selection.Selection, g plan.Grid) cpuexec.Job {
	w := &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "measured"}}, Func: window.Named("rate"), Width: width, Origin: plan.Origin{Text: "rate(measured)"}}
	return cpuexec.Job{
		Node: &plan.Aggregate{Func: aggregate.Named("sum"), Input: w, Origin: plan.Origin{Text: "sum(rate(measured))"}}, Grid: g,
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return s, nil, nil
		},
	}
}
