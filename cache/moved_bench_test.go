package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// BenchmarkMoved keeps what comes with each look at a day of 3200 series that ends now,
// a minute after the one before.
func BenchmarkMoved(b *testing.B) {
	const begin = 1000 * hour
	all := dense(b, 3200, begin-25*hour, begin+24*hour)
	var now, fetching atomic.Int64
	up := forgetful(func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		start := time.Now()
		defer func() { fetching.Add(time.Since(start).Nanoseconds()) }()
		sel, err := all.Slice(mint, maxt).Cut(mint, min(maxt, now.Load()))
		require.NoError(b, err)
		// As from a remote read, which shares nothing.
		return sel.Compact(2), nil, nil
	})
	now.Store(begin)
	c := New(up, Options{HostBytes: 1 << 40, Tile: 30 * time.Minute, Fresh: 10 * time.Minute, Recheck: 5 * time.Minute, Now: func() time.Time { return time.UnixMilli(now.Load()) }})
	look := func() {
		t0, f0 := time.Now(), fetching.Load()
		defer func() { fmt.Printf("%d: keep %s\n", now.Load()/60000%30, time.Since(t0)) }()
		_, _, err := c.get(b.Context(), now.Load()-24*hour, now.Load(), named("http_requests_total"))
		require.NoError(b, err)
		fmt.Printf("get %s fetch %d us  %v\n", time.Since(t0), (fetching.Load()-f0)/1000, c.entries[selectorKey(named("http_requests_total"))].covered)
		for c.flying.Load() > 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	look()
	fetching.Store(0)
	for b.Loop() {
		if now.Add(60_000) >= begin+24*hour {
			b.Fatal("no more samples")
		}
		look()
	}
	b.ReportMetric(float64(fetching.Load())/float64(b.N), "fetch-ns/op")
}
