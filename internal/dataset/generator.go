package dataset

import (
	"sync/atomic"

	"github.com/prometheus/prometheus/tsdb"
)

// Generator yields the data set from its start on, in steps.
type Generator struct {
	opts    Options
	targets []*target
	stats   Stats
	reached int64        // samples before this time were emitted
	heads   int          // heads written to so far
	done    atomic.Int64 // samples, for progress
}

// New returns a generator at the start of the data set.
func New(o Options) (*Generator, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Generator{opts: o, reached: o.Start}
	for i := range o.instances() {
		g.targets = append(g.targets, newInstance(o, i)...)
	}
	return g, nil
}

// Next emits all samples before until, in ms since the epoch, that were not
// emitted yet: one target after the other, and each series' samples in time
// order. It may go past Options.End.
func (g *Generator) Next(until int64, emit Emit) error {
	w := newWorker(&g.opts, emit)
	for _, t := range g.targets {
		if err := w.window(t, until); err != nil {
			return err
		}
	}
	w.addTo(&g.stats)
	g.reached = max(g.reached, until)
	return nil
}

// Stats says what was emitted so far.
func (g *Generator) Stats() Stats { return g.stats }

// worker generates targets, one at a time.
type worker struct {
	scrapes scrapes
	buffer  buffer
	emit    Emit
	stats   Stats
	done    *atomic.Int64 // samples, when someone watches
	opts    *Options
	late    []int64 // times
}

func newWorker(o *Options, emit Emit) *worker { return &worker{opts: o, emit: emit} }

// window emits the samples of t before until.
func (w *worker) window(t *target, until int64) error {
	t.scraper.window(&w.scrapes, until)
	for _, f := range t.families {
		if err := f.window(&w.scrapes, &w.buffer, w.count); err != nil {
			return err
		}
	}
	return nil
}

// count counts what it hands on.
func (w *worker) count(s *Series, t []int64, v []float64) error {
	if !s.written {
		s.written = true
		w.stats.Series++
	}
	for _, x := range v {
		if x != x {
			w.stats.StaleMarkers++ // no other NaN is generated
		}
	}
	t = w.delayed(s, t)
	if w.stats.Samples == 0 || t[0] < w.stats.MinTime {
		w.stats.MinTime = t[0]
	}
	w.stats.MaxTime = max(w.stats.MaxTime, t[len(t)-1])
	w.stats.Samples += int64(len(t))
	if w.done != nil {
		w.done.Add(int64(len(t)))
	}
	return w.emit(s, t, v)
}

// lateBy is how late samples with jitter come, ms, not included.
const lateBy = 4

// delayed returns the times of samples of s with jitter, but not over the edge of a block. The
// memory may be the worker's.
func (w *worker) delayed(s *Series, ts []int64) []int64 {
	seed := uint64(0)
	switch w.opts.Jitter {
	case "series":
		seed = s.Labels.Hash()
	case "scrape":
	default:
		return ts
	}
	w.late = append(w.late[:0], ts...)
	for i, t := range ts {
		late := t + int64(mix(seed+uint64(t))%lateBy)
		if late < w.opts.End && late/tsdb.DefaultBlockDuration == t/tsdb.DefaultBlockDuration {
			w.late[i] = late
		}
	}
	return w.late
}

// addTo adds the worker's counts to s.
func (w *worker) addTo(s *Stats) {
	if w.stats.Samples == 0 {
		return
	}
	if s.Samples == 0 || w.stats.MinTime < s.MinTime {
		s.MinTime = w.stats.MinTime
	}
	s.MaxTime = max(s.MaxTime, w.stats.MaxTime)
	s.Series += w.stats.Series
	s.Samples += w.stats.Samples
	s.StaleMarkers += w.stats.StaleMarkers
	s.Resets += w.buffer.resets
}
