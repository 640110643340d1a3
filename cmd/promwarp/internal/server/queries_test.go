package server

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/canary"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/selection"
)

// TestQueryLog: each query has a line if that is asked for, and a slow one has its plan.
func TestQueryLog(t *testing.T) {
	var log testfiles.Log
	set := quickSettings()
	set.Cache.Path = t.TempDir()
	s, stop := runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ask := func(query string) string {
		before := len(log.String())
		fetch(t, "GET", s.URL()+"/api/v1/query_range?start=600&end=3600&step=15&query="+url.QueryEscape(query))
		return log.String()[before:]
	}
	_, err := os.Stat(set.Cache.Path + "/queries.active")
	require.NoError(t, err)
	require.NotContains(t, ask("sum(rate(x[5m]))"), "query")
	require.NoError(t, stop())

	set.Log.Queries = true
	set.Cache.Path = ""
	s, stop = runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Regexp(t, `level=INFO msg=query component=web id=1 door=/api/v1/query_range query=sum\(rate\(x\[5m\]\)\) start=1970-01-01T00:10:00.000Z end=1970-01-01T01:00:00.000Z step=15s executor=cpu took=\S+ samples=\d+\n`, ask("sum(rate(x[5m]))"))
	require.Contains(t, ask("x * on () x"), "err=")
	require.NoError(t, stop())

	set.Log.Queries, set.Log.SlowQueries = false, model.Duration(time.Nanosecond)
	s, _ = runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Regexp(t, `level=WARN msg="slow query" .*plan="cpu +sum\(rate\(x\[5m\]\)\) `, ask("sum(rate(x[5m]))"))
}

// TestMetrics: the server's own metrics have good names, and operating.md lists each.
func TestMetrics(t *testing.T) {
	set := quickSettings()
	set.Cache.Path = t.TempDir()
	s, _ := runServer(t, Config{Settings: set, Upstream: bulky{}})
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&query=sum(x)")
	text, err := os.ReadFile("../../../../docs/operating.md")
	require.NoError(t, err)
	listed := regexp.MustCompile("`(promwarp_[a-z_]+\\*?)[`{]").FindAllStringSubmatch(string(text), -1)
	families, err := s.gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "promwarp_") || name == "promwarp_build_info" {
			continue
		}
		names = append(names, name)
		found := false
		for _, l := range listed {
			prefix, all := strings.CutSuffix(l[1], "*")
			found = found || l[1] == name || all && strings.HasPrefix(name, prefix)
		}
		require.True(t, found, "docs/operating.md does not list %s", name)
	}
	require.Greater(t, len(names), 40)
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(s.gather), names...)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestCompare: what any door evaluates is compared, one whose answer is another than the upstream's is
// found, a reload changes how much, and a server that stops leaves nothing behind.
func TestCompare(t *testing.T) {
	var log testfiles.Log
	set := quickSettings()
	set.Compare.Fraction = 1
	set.Query.LookbackDelta = config.AutoDuration(time.Hour)
	next := set
	next.Compare.Fraction = 0
	s, stop := runServer(t, Config{
		Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Reload: func() (config.Settings, error) { return next, nil },
	})
	q := "query=" + url.QueryEscape(`sum by (i) (rate(x[5m]))`)
	same := func() int {
		_, page := fetch(t, "GET", s.URL()+"/metrics")
		return counted(t, page, `promwarp_compare_queries_total{verdict="same"}`)
	}
	for i, ask := range []string{
		"/api/v1/query?time=3600&" + q, "/api/v1/query_range?start=600&end=3600&step=15&" + q,
		"/query?start=600&end=3600&step=15&" + q, "/query?format=csv&start=600&end=3600&step=15&" + q, "/query?format=csv&time=3600&" + q,
	} {
		code, body := fetch(t, "GET", s.URL()+ask)
		require.Equal(t, 200, code, body)
		require.Eventually(t, func() bool { return same() == i+1 && s.canary.Pending() == 0 }, time.Minute, time.Millisecond, ask)
	}
	fetch(t, "GET", s.URL()+"/api/v1/query?executor=prometheus&time=3600&"+q)
	fetch(t, "GET", s.URL()+"/explain?analyze=true&time=3600&"+q)
	require.NoError(t, s.Reload())
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&"+q)
	_, page := fetch(t, "GET", s.URL()+"/metrics")
	require.Equal(t, 5, same())
	require.Contains(t, page, "promwarp_compare_running 0")
	require.NotContains(t, page, "promwarp_compare_skipped_total{")
	require.NotContains(t, page, `promwarp_compare_queries_total{verdict="different"} 1`)

	s.canary.Set(canary.Settings{Fraction: 1, Timeout: time.Minute, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	})})
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&"+q)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `verdict=upstream difference="infos`) }, 10*time.Second, time.Millisecond, &log)

	next.Compare.Fraction = 1
	require.NoError(t, s.Reload())
	for range 3 {
		code, _ := fetch(t, "GET", s.URL()+"/api/v1/query_range?start=0&end=86400&step=15&"+q)
		require.Equal(t, 200, code)
	}
	require.NoError(t, stop()) // in the middle of a comparison
	require.Zero(t, s.canary.Pending())
	require.False(t, strings.Contains(log.String(), "level=ERROR"), log.String())
}

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
