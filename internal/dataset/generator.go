package dataset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"
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
	targets := newInstance
	if o.Gauges {
		targets = newGauges
	}
	for i := range o.instances() {
		g.targets = append(g.targets, targets(o, i)...)
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
		if block := w.opts.Block.Milliseconds(); late < w.opts.End && late/block == t/block {
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

// step is how far all series advance before any goes on. A TSDB head refuses
// samples older than its newest by more than half a block, an hour.
const step = 30 * minute

// commitSize is about the number of samples in one commit.
const commitSize = 20_000

// Progress is told how far writing has come, 0 to 1. It may be nil.
type Progress func(part float64)

// Write appends all samples before until, in ms since the epoch, that were not generated yet. The samples
// of all series advance together, so that a TSDB head accepts them.
func (g *Generator) Write(ctx context.Context, app storage.Appendable, until int64) (Stats, error) {
	g.heads++
	a := appending{ctx: ctx, app: app, head: g.heads}
	for more := true; more; {
		to := min(g.reached+step, until)
		err := g.Next(to, a.append)
		if err == nil {
			err = a.commit()
		}
		if err != nil {
			a.rollback()
			return g.stats, fmt.Errorf("write data set: %w", err)
		}
		more = to < until
	}
	return g.stats, nil
}

// appending appends in commits of bounded size.
type appending struct {
	ctx  context.Context
	app  storage.Appendable
	head int // tells the handles of one head from those of another
	cur  storage.Appender
	n    int // samples in cur
}

// append is an Emit.
func (a *appending) append(s *Series, t []int64, v []float64) error {
	if a.cur == nil {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		a.cur = a.app.Appender(a.ctx)
	}
	if s.head != a.head {
		s.head, s.ref = a.head, 0
	}
	for i := range t {
		ref, err := a.cur.Append(s.ref, s.Labels, t[i], v[i])
		if err != nil {
			return fmt.Errorf("append %s at %d ms: %w", s.Labels, t[i], err)
		}
		s.ref = ref
	}
	if a.n += len(t); a.n >= commitSize {
		return a.commit()
	}
	return nil
}

func (a *appending) commit() error {
	if a.cur == nil {
		return nil
	}
	cur := a.cur
	a.cur, a.n = nil, 0
	return cur.Commit()
}

func (a *appending) rollback() {
	if a.cur != nil {
		_ = a.cur.Rollback()
		a.cur = nil
	}
}

// WriteBlocks writes the data set into dir as TSDB blocks, which makes dir a data
// directory that Prometheus opens.
func WriteBlocks(ctx context.Context, dir string, o Options, progress Progress) (Stats, error) {
	g, err := New(o)
	if err != nil {
		return Stats{}, err
	}
	return g.WriteBlocks(ctx, dir, g.opts.End, progress)
}

// WriteBlocks writes all samples before until, in ms since the epoch, that were
// not generated yet, as TSDB blocks, aligned as Prometheus aligns them. It uses all
// cores.
func (g *Generator) WriteBlocks(ctx context.Context, dir string, until int64, progress Progress) (stats Stats, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write data set as blocks: %w", err)
		}
	}()
	// While one block is flushed the next is filled.
	flushes, ctx := errgroup.WithContext(ctx)
	flushes.SetLimit(1)
	block := g.opts.Block.Milliseconds()
	for from := g.reached / block * block; from < until; from += block {
		w, ferr := g.fillBlock(ctx, dir, min(from+block, until))
		if ferr != nil {
			// What a flush in progress says comes first: it may be the cause.
			err = errors.Join(flushes.Wait(), ferr)
			return g.stats, err
		}
		if progress != nil {
			progress(float64(g.reached-g.opts.Start) / float64(until-g.opts.Start))
		}
		flushes.Go(func() error {
			_, err := w.Flush(ctx)
			if errors.Is(err, tsdb.ErrNoSeriesAppended) {
				err = nil
			}
			return errors.Join(err, w.Close())
		})
	}
	err = flushes.Wait()
	return g.stats, err
}

// fillBlock fills the head of a block writer with the samples before until. On
// an error it has closed the writer.
func (g *Generator) fillBlock(ctx context.Context, dir string, until int64) (*tsdb.BlockWriter, error) {
	// A head takes samples up to half its range older than its newest one; with
	// twice the block's length the whole block fits in any order.
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, 2*g.opts.Block.Milliseconds())
	if err != nil {
		return nil, err
	}
	g.heads++
	app := &lockedAppendable{app: w}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	workers := make([]*worker, runtime.GOMAXPROCS(0))
	for i := range workers {
		a := &appending{ctx: ctx, app: app, head: g.heads}
		workers[i] = newWorker(&g.opts, a.append)
		group.Go(func() error {
			defer a.rollback()
			for {
				n := int(next.Add(1) - 1)
				if n >= len(g.targets) {
					return a.commit()
				}
				if err := workers[i].window(g.targets[n], until); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	g.reached = until
	for _, w := range workers {
		w.addTo(&g.stats)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// lockedAppendable hands out appenders one at a time, as a block writer wants.
type lockedAppendable struct {
	mu  sync.Mutex
	app storage.Appendable
}

// Appender implements storage.Appendable.
func (l *lockedAppendable) Appender(ctx context.Context) storage.Appender {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.app.Appender(ctx)
}
