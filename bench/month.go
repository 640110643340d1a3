package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sync/errgroup"
)

// Times are in ms.
const (
	second   = int64(1000)
	interval = 15 * second
	lateBy   = 4 // not included
	seldom   = 8 // one scrape in 8 is late
	head     = tsdb.DefaultBlockDuration
	block    = 27 * head // what a Prometheus compacts to that keeps a month: 2 h times 3 times 3 times 3
)

// writeMonth writes a number of counters from start to end into dir as blocks of 54 h, whose
// chunks end where those of a Prometheus do. Counters are reset where a block begins.
func writeMonth(ctx context.Context, dir string, series int, start, end int64) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for from := start / block * block; from < end; from += block {
		group.Go(func() error { return writeBlock(ctx, dir, series, max(from, start), min(from+block, end)) })
	}
	return group.Wait()
}

// writeBlock writes one block, of a head with chunks of at most 2 h. The head takes samples that
// are up to an hour older than its newest one, so all series advance by that.
func writeBlock(ctx context.Context, dir string, series int, start, end int64) error {
	counters := make([]counter, series)
	for i := range counters {
		counters[i] = newCounter(i, start)
	}
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, head)
	if err != nil {
		return err
	}
	for to := start; to < end; {
		to = min(to+head/2, end)
		app := w.Appender(ctx)
		for i := range counters {
			if err := counters[i].until(app, to); err != nil {
				return errors.Join(err, app.Rollback(), w.Close())
			}
		}
		if err := app.Commit(); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	_, err = w.Flush(ctx)
	return errors.Join(err, w.Close())
}

// counter is a series with whole numbers, scraped up to lateBy ms late now and then.
type counter struct {
	labels labels.Labels
	random *rand.Rand
	next   int64 // when it is to be scraped
	value  float64
}

func newCounter(i int, start int64) counter {
	r := rand.New(rand.NewPCG(uint64(i), uint64(start)))
	target := i / 24
	return counter{
		labels: labels.FromStrings("__name__", "m_total", "instance", fmt.Sprintf("host-%04d:9100", target),
			"job", fmt.Sprint("job-", target%8), "path", fmt.Sprintf("/api/v1/resource/%02d", i%24)),
		random: r, next: start + int64(target)*37%interval, value: float64(r.IntN(1000)),
	}
}

// until appends the samples before end.
func (c *counter) until(app storage.Appender, end int64) error {
	var ref storage.SeriesRef
	for ; c.next < end-lateBy; c.next += interval {
		c.value += float64(c.random.IntN(30))
		at, err := c.next, error(nil)
		if c.random.IntN(seldom) == 0 {
			at += c.random.Int64N(lateBy)
		}
		if ref, err = app.Append(ref, c.labels, at, c.value); err != nil {
			return err
		}
	}
	return nil
}
