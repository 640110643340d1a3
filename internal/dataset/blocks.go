package dataset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"
)

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
	stop := g.report(progress)
	defer stop()

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
		flushes.Go(func() error {
			_, err := w.Flush(ctx)
			if errors.Is(err, tsdb.ErrNoSeriesAppended) {
				err = nil
			} else if err == nil {
				g.stats.Blocks++ // one flush runs at a time
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
		workers[i].done = &g.done
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

// report tells progress twice a second how far g is, until the returned
// function is called, which tells it the end.
func (g *Generator) report(progress Progress) (stop func()) {
	if progress == nil {
		return func() {}
	}
	total := g.opts.estimate()
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				progress(min(g.done.Load(), total), total)
			}
		}
	}()
	return func() {
		close(quit)
		<-over
		done := g.done.Load()
		progress(done, done)
	}
}
