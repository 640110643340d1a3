package dataset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"
)

// Generator writes the data set from its start on, in steps.
type Generator struct {
	opts            Options
	targets         []*target
	reached         int64 // samples before this time were generated
	series, samples atomic.Int64
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
	each := seriesPerInstance
	if o.Gauges {
		each = gaugesPerInstance()
	}
	if len(o.Families) > 0 {
		targets, each = newFamilies, len(newFamilies(o, math.MaxInt)[0].exposes)
	}
	for i := range max(1, (o.Series+each/2)/each) {
		g.targets = append(g.targets, targets(o, i)...)
	}
	return g, nil
}

// Stats says what was generated so far.
func (g *Generator) Stats() Stats {
	return Stats{Series: int(g.series.Load()), Samples: g.samples.Load()}
}

// step is how far all series advance before any goes on. A TSDB head refuses
// samples older than its newest by more than half a block, an hour.
const step = 30 * minute

// Write appends all samples before until, in ms since the epoch, that were not generated yet. until
// may be past Options.End. All series advance together, so that a TSDB head accepts the samples.
func (g *Generator) Write(ctx context.Context, to storage.Appendable, until int64) error {
	for more := true; more; {
		next := min(g.reached+step, until)
		if err := g.advance(ctx, to, next); err != nil {
			return fmt.Errorf("write data set: %w", err)
		}
		more = next < until
	}
	return nil
}

// WriteBlocks writes the data set into dir as TSDB blocks, which makes dir a data
// directory that Prometheus opens.
func WriteBlocks(ctx context.Context, dir string, o Options) (Stats, error) {
	g, err := New(o)
	if err != nil {
		return Stats{}, err
	}
	err = g.WriteBlocks(ctx, dir, g.opts.End, func(float64) {})
	return g.Stats(), err
}

// WriteBlocks writes all samples before until, in ms since the epoch, that were not generated yet, as
// TSDB blocks, aligned as Prometheus aligns them. It tells progress how far it has come, 0 to 1.
func (g *Generator) WriteBlocks(ctx context.Context, dir string, until int64, progress func(part float64)) error {
	// While one block is flushed the next is filled.
	flushes, ctx := errgroup.WithContext(ctx)
	flushes.SetLimit(1)
	block := g.opts.Block.Milliseconds()
	var err error
	for from := g.reached / block * block; from < until && err == nil; from += block {
		// A head takes samples up to half its range older than its newest one; with
		// twice the block's length the whole block fits in any order.
		var w *tsdb.BlockWriter
		if w, err = tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, 2*block); err != nil {
			break
		}
		if err = g.advance(ctx, w, min(from+block, until)); err != nil {
			err = errors.Join(err, w.Close())
			break
		}
		progress(float64(g.reached-g.opts.Start) / float64(until-g.opts.Start))
		flushes.Go(func() error {
			_, err := w.Flush(ctx)
			if errors.Is(err, tsdb.ErrNoSeriesAppended) {
				err = nil
			}
			return errors.Join(err, w.Close())
		})
	}
	// What a flush says comes first: it may be the cause.
	if err = errors.Join(flushes.Wait(), err); err != nil {
		return fmt.Errorf("write data set as blocks: %w", err)
	}
	return nil
}

// advance appends the samples before until, on all cores, and commits those of each target.
func (g *Generator) advance(ctx context.Context, to storage.Appendable, until int64) error {
	var opening sync.Mutex // a block writer opens one appender at a time
	cores, ctx := errgroup.WithContext(ctx)
	cores.SetLimit(runtime.GOMAXPROCS(0))
	for _, t := range g.targets {
		cores.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			opening.Lock()
			app := to.Appender(ctx)
			opening.Unlock()
			if err := g.window(t, until, app); err != nil {
				return errors.Join(err, app.Rollback())
			}
			return app.Commit()
		})
	}
	g.reached = max(g.reached, until)
	return cores.Wait()
}

// series is one series of the data set.
type series struct {
	labels.Labels
	written bool // has had a sample
}

// emit takes samples of a series, in time order.
type emit func(s *series, t []int64, v []float64) error

// window appends the samples of a target before until that were not yet generated.
func (g *Generator) window(t *target, until int64, app storage.Appender) error {
	found := t.until(until)
	for _, e := range t.exposes {
		if err := e.window(found, func(s *series, times []int64, values []float64) (err error) {
			if !s.written {
				s.written = true
				g.series.Add(1)
			}
			g.samples.Add(int64(len(times)))
			var ref storage.SeriesRef
			for i, t := range g.delayed(s, times) {
				if ref, err = app.Append(ref, s.Labels, t, values[i]); err != nil {
					return fmt.Errorf("append %s at %d ms: %w", s.Labels, t, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// lateBy is how late samples with jitter come, ms, not included.
const lateBy = 4

// delayed returns the times of samples of s with jitter, but not over the edge of a block.
func (g *Generator) delayed(s *series, ts []int64) []int64 {
	seed := uint64(0)
	switch g.opts.Jitter {
	case "series":
		seed = s.Labels.Hash()
	case "scrape":
	default:
		return ts
	}
	ts = slices.Clone(ts)
	for i, t := range ts {
		late := t + int64(mix(seed+uint64(t))%lateBy)
		if block := g.opts.Block.Milliseconds(); late < g.opts.End && late/block == t/block {
			ts[i] = late
		}
	}
	return ts
}
