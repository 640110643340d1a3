package dataset

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// Generator yields the data set from its start on, in steps.
type Generator struct {
	opts    Options
	targets []*target
	stats   Stats
	reached int64 // samples before this time were emitted
	heads   int   // heads written to so far
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
	w.stats.Samples += int64(len(t))
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
	s.Series += w.stats.Series
	s.Samples += w.stats.Samples
	s.StaleMarkers += w.stats.StaleMarkers
}

// Series is one series of the data set.
type Series struct {
	Labels labels.Labels

	written bool // has had a sample
	// The writer's handle, good while its head is.
	ref  storage.SeriesRef
	head int
}

// Emit takes samples of a series, in time order. The slices may be used again
// after it returns.
type Emit func(s *Series, t []int64, v []float64) error

// buffer holds the samples of one series in one window while they are made.
type buffer struct {
	t []int64
	v []float64
}

func (b *buffer) clear() { b.t, b.v = b.t[:0], b.v[:0] }

func (b *buffer) add(t int64, v float64) {
	b.t = append(b.t, t)
	b.v = append(b.v, v)
}

// flush hands the samples over and clears the buffer.
func (b *buffer) flush(s *Series, emit Emit) error {
	if len(b.t) == 0 {
		return nil
	}
	err := emit(s, b.t, b.v)
	b.clear()
	return err
}

var staleMarker = math.Float64frombits(value.StaleNaN)

// skip says whether scrape i yields no sample for a series other than up. It
// adds the stale marker where the series ends.
func (b *buffer) skip(w *scrapes, i int) bool {
	f := w.flags[i]
	if f&(flagDown|flagRemoved|flagLost) == 0 {
		return false
	}
	if f&flagFirst != 0 {
		b.add(w.t[i], staleMarker)
	}
	return true
}

// IsStale says whether v is the stale marker.
func IsStale(v float64) bool { return value.IsStaleNaN(v) }
