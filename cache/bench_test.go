package cache

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
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

// dense makes n series with a chunk every 1800 s, each of 120 samples 15 s
// apart: as of Prometheus's head.
func dense(b *testing.B, n int, mint, maxt int64) *selection.Selection {
	sb := selection.NewBuilder(0)
	chunk := func(from, to int64) []byte {
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		require.NoError(b, err)
		for ts := from; ts < to; ts += 15_000 {
			app.Append(0, ts, float64(ts/15_000%1000))
		}
		return c.Bytes()
	}
	const long = 1_800_000
	encoded := map[int64][]byte{}
	for i := range n {
		sb.Series(labels.FromStrings("__name__", "http_requests_total", "instance", string(rune('a'+i%26))+"-host.example:9090", "code", "200", "i", string(rune(0x4e00+i))))
		for from := mint; from < maxt; from += long {
			to := min(from+long, maxt)
			if encoded[from] == nil {
				encoded[from] = chunk(from, to)
			}
			require.NoError(b, sb.Chunk(chunkenc.EncXOR, from, to-15_000, encoded[from]))
		}
	}
	s, err := sb.Finish()
	require.NoError(b, err)
	return s
}
