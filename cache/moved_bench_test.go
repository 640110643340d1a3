package cache

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// BenchmarkMoved looks at a day of 3200 series that ends now, again and again, a minute
// after the look before. What the look takes without the fetch, and what is kept behind
// its back, are told apart.
func BenchmarkMoved(b *testing.B) {
	const begin = 1000 * hour
	all := dense(b, 3200, begin-25*hour, begin+24*hour)
	var now, fetching atomic.Int64
	up := forgetful(func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		start := time.Now()
		defer func() { fetching.Add(time.Since(start).Nanoseconds()) }()
		sel, err := all.Slice(mint, maxt).Cut(context.Background(), mint, min(maxt, now.Load()))
		if err != nil {
			return nil, nil, err
		}
		return sel.Compact(2), nil, nil // as from a remote read, which shares nothing
	})
	now.Store(begin)
	c := New(up, Options{
		HostBytes: 1 << 40, Recheck: DefaultRecheck, Now: func() time.Time { return time.UnixMilli(now.Load()) },
	})
	var looking, keeping time.Duration
	look := func() {
		start := time.Now()
		_, _, err := c.get(b.Context(), now.Load()-24*hour, now.Load(), named("http_requests_total"))
		require.NoError(b, err)
		looking += time.Since(start)
		start = time.Now()
		landed(b, c)
		keeping += time.Since(start)
	}
	look()
	looking, keeping = 0, 0
	fetching.Store(0)
	for b.Loop() {
		if now.Add(60_000) >= begin+24*hour {
			b.Fatal("there are no more samples")
		}
		look()
	}
	b.ReportMetric(float64(int64(looking)-fetching.Load())/float64(b.N), "look-ns/op")
	b.ReportMetric(float64(keeping)/float64(b.N), "keep-ns/op")
}
