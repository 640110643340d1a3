package dataset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"
)

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

// WriteBlocks writes the data set into dir as TSDB blocks of two hours, which
// makes dir a data directory that Prometheus opens.
func WriteBlocks(ctx context.Context, dir string, o Options, progress Progress) (Stats, error) {
	g, err := New(o)
	if err != nil {
		return Stats{}, err
	}
	return g.WriteBlocks(ctx, dir, g.opts.End, progress)
}

// WriteBlocks writes all samples before until, in ms since the epoch, that were
// not generated yet, as TSDB blocks of two hours, aligned as Prometheus aligns
// them. It uses all cores.
func (g *Generator) WriteBlocks(ctx context.Context, dir string, until int64, progress Progress) (stats Stats, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write data set as blocks: %w", err)
		}
	}()
	// While one block is flushed the next is filled.
	flushes, ctx := errgroup.WithContext(ctx)
	flushes.SetLimit(1)
	first := g.reached / tsdb.DefaultBlockDuration * tsdb.DefaultBlockDuration
	for from := first; from < until; from += tsdb.DefaultBlockDuration {
		w, ferr := g.fillBlock(ctx, dir, min(from+tsdb.DefaultBlockDuration, until))
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
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, 2*tsdb.DefaultBlockDuration)
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
