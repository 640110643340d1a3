package backend

import (
	"context"

	"github.com/prometheus/prometheus/promql"
)

// tracker is a promql.QueryTracker that says how many queries run at a time, which the
// queue at the door sees to. Prometheus's own also keeps them in a file, to name after
// a crash what ran, and promwarp has no directory of its own.
type tracker struct{ maxConcurrent int }

// GetMaxConcurrent implements promql.QueryTracker.
func (t tracker) GetMaxConcurrent() int { return t.maxConcurrent }

// Insert implements promql.QueryTracker. As from Prometheus's tracker, the error is the
// context's.
func (tracker) Insert(ctx context.Context, _ string) (int, error) { return 0, ctx.Err() }

// Delete implements promql.QueryTracker.
func (tracker) Delete(int) {}

// Close implements promql.QueryTracker.
func (tracker) Close() error { return nil }

var _ promql.QueryTracker = tracker{}
