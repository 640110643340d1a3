package backend

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/prometheus/promql"
)

// ActiveFile has the queries that run in a file that survives a crash, which is Prometheus's
// queries.active. It is the process's until that ends: queries may run to the last. A nil
// ActiveFile has none.
type ActiveFile struct {
	file    *promql.ActiveQueryTracker
	slots   int64
	running atomic.Int64
}

// activeSlots is how many queries a file has room for; of more at once, the others are left out.
const activeSlots = 256

// OpenActiveFile makes the file in a directory. The log says which queries had not ended when the
// process ended that had it before.
func OpenActiveFile(dir string, logger *slog.Logger) (*ActiveFile, error) {
	file, err := promql.NewActiveQueryTracker(dir, activeSlots, logger)
	if err != nil {
		return nil, err
	}
	return &ActiveFile{file: file, slots: activeSlots}, nil
}

// notListed stands for the slot of a query that is not in the file.
const notListed = -1

// tracker is a promql.QueryTracker that says how many queries run at a time, which the queue at the
// door sees to, and has them in a file if there is one.
type tracker struct {
	maxConcurrent int
	active        *ActiveFile
}

// GetMaxConcurrent implements promql.QueryTracker.
func (t tracker) GetMaxConcurrent() int { return t.maxConcurrent }

// Insert implements promql.QueryTracker. As from Prometheus's tracker, the error is the context's.
// It never waits.
func (t tracker) Insert(ctx context.Context, query string) (int, error) {
	if err := ctx.Err(); err != nil || t.active == nil {
		return notListed, err
	}
	if t.active.running.Add(1) > t.active.slots {
		t.active.running.Add(-1)
		return notListed, nil
	}
	return t.active.file.Insert(context.Background(), query)
}

// Delete implements promql.QueryTracker.
func (t tracker) Delete(slot int) {
	if slot == notListed {
		return
	}
	t.active.file.Delete(slot)
	t.active.running.Add(-1)
}

// Close implements promql.QueryTracker.
func (tracker) Close() error { return nil }

var _ promql.QueryTracker = tracker{}
