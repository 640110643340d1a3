package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// bulky is an upstream that has 100 series of every name, with a sample each 15 s that nothing
// compresses.
type bulky struct{}

func (bulky) Fetch(_ context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	r := rand.New(rand.NewPCG(1, 2))
	b := selection.NewBuilder(0)
	const step = 15_000
	for i := range 100 {
		b.Series(labels.FromStrings("__name__", matchers[0].Value, "i", fmt.Sprintf("%03d", i)))
		for ts := (mint + step - 1) / step * step; ts <= maxt; {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			if err != nil {
				return nil, nil, err
			}
			from, last := ts, ts
			for ; ts <= maxt && c.NumSamples() < 120; ts += step {
				app.Append(0, ts, r.NormFloat64())
				last = ts
			}
			if err := b.Chunk(chunkenc.EncXOR, from, last, c.Bytes()); err != nil {
				return nil, nil, err
			}
		}
	}
	s, err := b.Finish()
	return s, nil, err
}

// TestCacheGivesWay: a query that needs the memory that the cache holds is answered, the cache
// shrinks for it, and grows again.
func TestCacheGivesWay(t *testing.T) {
	set := quickSettings()
	set.Memory.Limit = 128 << 20 // of which requests and the cache may take 102 MiB
	set.Cache.HostBytes, set.Cache.DecodedBytes, set.Cache.ResultsBytes = 94<<20, 0, 0
	set.Query.MaxMemory = 100 << 20
	s, _ := runServer(t, Config{Settings: set, Upstream: bulky{}})
	end := time.Now().Add(-24 * time.Hour).Unix()
	ask := func(expr string, step int64) {
		t.Helper()
		q := url.Values{"query": {expr}, "start": {fmt.Sprint(end - 86_000)}, "end": {fmt.Sprint(end)}, "step": {fmt.Sprint(step)}}
		code, body := fetch(t, http.MethodGet, s.URL()+"/api/v1/query_range?"+q.Encode())
		require.Equal(t, http.StatusOK, code, "%.300s", body)
	}
	fill := func() int64 {
		for i := range 18 {
			ask(fmt.Sprintf("count(m%d)", i), 3600)
		}
		return s.current.Load().reads.Stores[0].Cache.Stats().Bytes
	}
	full := fill()
	require.Greater(t, full, int64(80<<20))
	require.Zero(t, s.memory.Reclaimed())
	ask("count(sum by (i) (m0) + sum by (i) (m0 * 2) + sum by (i) (m0 * 3))", 8)
	require.Positive(t, s.memory.Reclaimed())
	require.Less(t, s.current.Load().reads.Stores[0].Cache.Stats().Bytes, full)
	require.Greater(t, fill(), int64(80<<20))
	_, metrics := fetch(t, http.MethodGet, s.URL()+"/metrics")
	require.Contains(t, metrics, "\npromwarp_memory_reclaimed_bytes_total ")
}
