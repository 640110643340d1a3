package main

import (
	"context"
	"fmt"

	"github.com/prometheus/prometheus/promql"
)

// tracker is a promql.QueryTracker that only bounds how many queries run at a
// time. Prometheus's own also keeps them in a file, to name after a crash what
// ran, and promwarp has no directory of its own.
type tracker struct{ running chan struct{} }

func newTracker(max int) *tracker { return &tracker{make(chan struct{}, max)} }

// GetMaxConcurrent implements promql.QueryTracker.
func (t *tracker) GetMaxConcurrent() int { return cap(t.running) }

// Insert waits until the query may run. As from Prometheus's tracker, the error
// is the context's when that ends first.
func (t *tracker) Insert(ctx context.Context, _ string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case t.running <- struct{}{}:
		return 0, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting for one of %d running queries to finish: %w", cap(t.running), ctx.Err())
	}
}

// Delete lets the next query run.
func (t *tracker) Delete(int) { <-t.running }

// Close implements promql.QueryTracker.
func (t *tracker) Close() error { return nil }

var _ promql.QueryTracker = (*tracker)(nil)
