package placement

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// calibrate makes the model when the first GPU is open: from the constants that were given, or by
// timing whole leaves on both executors, which takes under a second. The cores' part begins at once.
// GPUs with other names are timed, too.
func (p *Placer) calibrate(ctx context.Context) (opened func(*pipeline.Machine) error) {
	if c := p.o.Constants; c != nil {
		p.model.Store(NewModel(*c))
		return func(*pipeline.Machine) error { return nil }
	}
	m := &measuring{ctx: ctx, cpu: p.cpu, made: map[[2]int]*selection.Selection{}}
	var c Constants
	done := make(chan struct{})
	go func() {
		defer close(done)
		if p.model.Load() != nil {
			return
		}
		m.err = parallel.Rescue(func() error {
			c.Cores = m.costs(nil)
			m.selection(mostSeries, usualSamples) // for the GPU
			return m.err
		})
	}()
	return func(x *pipeline.Machine) error {
		<-done
		model := p.model.Load()
		if model != nil {
			if _, known := model.speeds.Load(x.Dev.Name); known {
				return m.err
			}
		}
		start := time.Now()
		device := m.costs(&gpuexec.Alone{Machine: x})
		if m.err != nil {
			return m.err
		}
		if model != nil {
			model.speeds.Store(x.Dev.Name, model.c.Device.Sample/device.Sample)
			return nil
		}
		c.Device, c.Link = device, x.Link
		p.log.Info("measured what the GPU and the cores do", "took", time.Since(start).Round(time.Millisecond),
			"gpu_leaf", c.Device.Fixed, "link_bytes_per_second", int64(c.Link), "gpu_samples_per_second", int64(1e9/c.Device.Sample),
			"cores_samples_per_second", int64(1e9/c.Cores.Sample), "cores", runtime.GOMAXPROCS(0))
		model = NewModel(c)
		model.speeds.Store(x.Dev.Name, 1.0)
		p.model.Store(model)
		return nil
	}
}

// All leaves that are measured are sums of rates: a small one, whose time is mostly Costs.Fixed, and
// one large enough to keep the executor busy, from which Costs.Sample follows. That one has a day's
// samples of each series, as dashboards have it.
const (
	someSamples  = 8 * synthetic.ChunkSamples
	usualSamples = 48 * synthetic.ChunkSamples

	someSeries = 32
	mostSeries = someSeries << 8 // with usualSamples each, 47 M samples
	times      = 4               // as many series, each time
)

// busyTime is how long a leaf takes that surely keeps an executor busy.
const busyTime = 15 * time.Millisecond

// measuring times leaves until there is an error.
type measuring struct {
	ctx  context.Context
	cpu  *cpuexec.Executor
	made map[[2]int]*selection.Selection // by series, and samples of each
	err  error
}

// costs measures what an accelerator takes, or the cores where there is none.
func (m *measuring) costs(x offload.Accelerator) Costs {
	fixed, little := m.leaf(x, 1, someSamples)
	var took time.Duration
	var work float64
	for n := someSeries; n <= mostSeries && m.err == nil && took < busyTime; n *= times {
		took, work = m.leaf(x, n, usualSamples)
	}
	sample := float64(max(1, took-fixed)) / (work - little)
	return Costs{Fixed: max(0, fixed-time.Duration(sample*little)), Sample: sample}
}

// leaf times a leaf of series with equally many samples each, and returns its work.
func (m *measuring) leaf(x offload.Accelerator, series, samples int) (took time.Duration, work float64) {
	sel := m.selection(series, samples)
	g := plan.Grid{Start: synthetic.Start + step, Interval: step, Steps: samples * synthetic.Interval / step}
	job := sumOfRates(sel, g)
	job.Accelerator = x
	took = m.median(func() error {
		_, err := m.cpu.Run(m.ctx, job)
		return err
	})
	return took, workOf(&offload.Size{Series: int64(series), Samples: int64(series * samples), Windows: int64(series * g.Steps)}, 0)
}

// selection is one of series with equally many samples each.
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

// step is that of the measured leaves, and width the width of their windows, in ms.
const step, width = 60_000, 300_000

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
