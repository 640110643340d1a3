package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// nativeDB has samples every 15 s until end (ms) of n series each of native histograms (a,
// b, h and h2), of floats (f and g), and of floats that become native histograms after half
// of the time (turned).
func nativeDB(t testing.TB, n int, end int64) *teststorage.TestStorage {
	db := teststorage.New(t)
	r := rand.New(rand.NewPCG(4, 4))
	for _, name := range []string{"a", "b", "f", "g", "h", "h2", "turned"} {
		for inst := range n {
			ls := labels.FromStrings("__name__", name, "instance", fmt.Sprintf("i-%03d", inst), "job", fmt.Sprint("j", inst%5))
			h := &histogram.Histogram{
				Schema: 3, ZeroThreshold: 1e-9,
				PositiveSpans:   []histogram.Span{{Offset: -20, Length: 8}, {Offset: 4, Length: 12}},
				PositiveBuckets: make([]int64, 20),
			}
			counts := make([]int64, 20)
			app := db.Appender(t.Context())
			for ts := int64(0); ts < end; ts += 15_000 {
				for range r.IntN(10) {
					k := min(r.IntN(20), r.IntN(20))
					counts[k]++
					h.Count++
					h.Sum += float64(k)
				}
				var err error
				if name == "f" || name == "g" || name == "turned" && ts < end/2 {
					_, err = app.Append(0, ls, ts+int64(inst), h.Sum)
				} else {
					last := int64(0)
					for k, c := range counts {
						h.PositiveBuckets[k], last = c-last, c
					}
					_, err = app.AppendHistogram(0, ls, ts+int64(inst), h.Copy(), nil)
				}
				require.NoError(t, err)
			}
			require.NoError(t, app.Commit())
		}
	}
	return db
}

// chunksOf is an upstream that has what a storage has, and counts what it is asked.
type chunksOf struct {
	db    storage.ChunkQueryable
	asked *atomic.Int64
}

func (c chunksOf) Fetch(ctx context.Context, mint, maxt int64, ms []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	c.asked.Add(1)
	q, err := c.db.ChunkQuerier(mint, maxt)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	return selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, nil, ms...), 0)
}

// cached is a cache in front of a storage whose samples are all before now (ms), all of
// them settled if it says so.
func cached(t testing.TB, db storage.ChunkQueryable, now int64, settled bool) (*cache.Cache, *atomic.Int64) {
	if settled {
		now += 24 * hour
	}
	asked := &atomic.Int64{}
	c := cache.New(chunksOf{db, asked}, cache.Options{HostBytes: 1 << 30, Now: func() time.Time { return time.UnixMilli(now) }})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, asked
}

// tracker counts how often Prometheus's engine notes a query as active, which it does when
// it makes one and when it runs one.
type tracker struct{ runs int }

func (*tracker) Close() error           { return nil }
func (*tracker) GetMaxConcurrent() int  { return 1 }
func (*tracker) Delete(insertIndex int) {}

func (k *tracker) Insert(context.Context, string) (int, error) {
	k.runs++
	return 0, nil
}

// TestNativeHistogramsAtOnce: a query of native histograms is left to Prometheus's
// engine before anything is evaluated. Every query runs once and fetches once.
func TestNativeHistogramsAtOnce(t *testing.T) {
	const end = hour
	db := nativeDB(t, 3, end)
	const countReason, sumReason = "the function histogram_count is not on an executor yet", "the function histogram_sum is not on an executor yet"
	for query, reason := range map[string]string{
		"a - b":           cpuexec.ReasonHistograms,
		"sum(a) / sum(b)": cpuexec.ReasonHistograms,
		"a":               cpuexec.ReasonHistograms,
		"histogram_quantile(0.9, sum(rate(h[5m])))":                       cpuexec.ReasonHistograms,
		"sum(rate(h[5m])) + sum(rate(h2[5m]))":                            cpuexec.ReasonHistograms,
		"(a + b) / ignoring (le) (h + h2) > bool f":                       cpuexec.ReasonHistograms,
		"sum(f) / histogram_count(sum(rate(h[5m])))":                      countReason,
		"rate(f[5m]) * 2 + sum by (instance, job) (g) / histogram_sum(h)": sumReason,
		"histogram_count(max_over_time(rate(h[5m])[10m:1m])) or (f - g)":  countReason,
		"count(a) + count(b) + count(f)":                                  cpuexec.ReasonHistograms,
		"topk(2, f) and on (instance) a":                                  cpuexec.ReasonHistograms,
		`{__name__=~"f|a"}`:                                               cpuexec.ReasonHistograms,
		"f - g":                                                           "",
		"turned":                                                          cpuexec.ReasonHistograms,
		"sum_over_time(turned[5m])":                                       cpuexec.ReasonHistograms,
		"turned @ 3000 - f":                                               cpuexec.ReasonHistograms,
		"turned @ 1000 - f":                                               "",
		"turned offset 45m - f":                                           "",
	} {
		t.Run(query, func(t *testing.T) {
			for _, settled := range []bool{true, false} {
				for _, delayed := range []bool{false, true} {
					storage, asked := cached(t, db, end, settled)
					opts := plainOpts()
					opts.EnableDelayedNameRemoval = delayed
					stock := promql.NewEngine(opts)
					runs := &tracker{}
					opts = plainOpts()
					opts.EnableDelayedNameRemoval, opts.ActiveQueryTracker = delayed, runs
					ours := New(Options{Prometheus: opts, Workers: 2})
					want := summary(ranged(t, stock, t.Context(), db, query), query)
					for round := 1; round <= 3; round++ {
						before := asked.Load()
						x, err := explained(ours, t.Context(), selection.Storage{Source: storage}, query)
						require.NoError(t, err)
						// What turns into histograms while it is not settled is declined once a query.
						if settled || round > 1 && !strings.Contains(query, "turned") {
							require.Equal(t, 2, runs.runs, "notes of active queries")
						}
						if round > 1 {
							require.LessOrEqual(t, asked.Load()-before, int64(selectors(query)), "requests to the upstream")
						}
						require.Equal(t, reason, leftFor(x.Root))
						require.Zero(t, testutil.ToFloat64(ours.metrics.lost))
						if reason != "" {
							require.Zero(t, testutil.ToFloat64(ours.metrics.samples)+testutil.ToFloat64(ours.metrics.kept), "samples decoded")
						}
						require.Equal(t, want, summary(ranged(t, ours, t.Context(), selection.Storage{Source: storage}, query), query))
						runs.runs = 0
					}

					// What is kept says so when nothing is run.
					x, err := ours.Explain(t.Context(), Request{Storage: selection.Storage{Source: storage}, Query: query, Start: time.UnixMilli(600_000), End: time.UnixMilli(3_000_000), Step: 30 * time.Second}, false)
					require.NoError(t, err)
					if settled {
						require.Equal(t, reason, leftFor(x.Root))
					}
				}
			}
		})
	}
}

// selectors is about the number of selectors in a query.
func selectors(query string) int { return strings.Count(query, " ") + 2 }

func explained(e *Engine, ctx context.Context, q storage.Queryable, qs string) (*plan.Explanation, error) {
	return e.Explain(ctx, Request{Storage: q, Query: qs, Start: time.UnixMilli(600_000), End: time.UnixMilli(3_000_000), Step: 30 * time.Second}, true)
}

// leftFor is why a query is left to Prometheus's engine, or nothing if it is not.
func leftFor(root *plan.Decision) (reason string) {
	root.Walk(func(d *plan.Decision) {
		if d.Own {
			reason = d.Reason
		}
	})
	return reason
}

// TestHistogramsOfSeveralUpstreams: what any of several caches keeps counts.
func TestHistogramsOfSeveralUpstreams(t *testing.T) {
	const end = hour
	empty, _ := cached(t, teststorage.New(t), end, true)
	full, _ := cached(t, nativeDB(t, 2, end), end, true)
	f := fanout.New(nil, fanout.Upstream{Name: "empty", Cache: empty}, fanout.Upstream{Name: "full", Cache: full})
	e := New(Options{Prometheus: plainOpts()})
	for _, qs := range []string{"a + f", "f + a"} {
		require.Equal(t, summary(ranged(t, promql.NewEngine(plainOpts()), t.Context(), selection.Storage{Source: full}, qs), qs), summary(ranged(t, e, t.Context(), selection.Storage{Source: f}, qs), qs))
		x, err := e.Explain(t.Context(), Request{Storage: selection.Storage{Source: f}, Query: qs, Start: time.UnixMilli(600_000), End: time.UnixMilli(3_000_000), Step: 30 * time.Second}, false)
		require.NoError(t, err)
		require.Equal(t, cpuexec.ReasonHistograms, leftFor(x.Root))
	}
}

// TestHistogramsGone: a selector is not left to Prometheus's engine for histograms that are
// no longer there.
func TestHistogramsGone(t *testing.T) {
	const end = hour
	db := nativeDB(t, 2, end)
	c, _ := cached(t, db, end, true)
	e := New(Options{Prometheus: plainOpts()})
	left := func() string {
		x, err := explained(e, t.Context(), selection.Storage{Source: c}, "a + f")
		require.NoError(t, err)
		return leftFor(x.Root)
	}
	require.Equal(t, cpuexec.ReasonHistograms, left())
	matchers := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "a")}
	require.NoError(t, db.Delete(t.Context(), 0, end, matchers...))
	require.Equal(t, cpuexec.ReasonHistograms, left(), "the cache keeps them")
	_, err := c.Drop(0, end, matchers)
	require.NoError(t, err)
	require.Empty(t, left())
}

// TestHistogramsBegin: of a metric whose kept samples are floats and whose newest ones are
// histograms, the latter show when they are fetched, and the answer is right.
func TestHistogramsBegin(t *testing.T) {
	const end = 2 * hour
	db := nativeDB(t, 2, end)
	now := end / 2
	c := cache.New(chunksOf{db, &atomic.Int64{}}, cache.Options{HostBytes: 1 << 30, Now: func() time.Time { return time.UnixMilli(now) }})
	defer c.Close()
	e, stock := New(Options{Prometheus: plainOpts()}), promql.NewEngine(plainOpts())
	for ; now < end; now += 5 * minute {
		for _, qs := range []string{"sum(f) + sum(turned)", "turned", "sum_over_time(turned[10m]) or f"} {
			ask := question{query: qs, start: now - 40*minute, end: now, step: minute}
			got, err := ask.on(e, selection.Storage{Source: c})
			require.NoError(t, err)
			want, err := ask.on(stock, db)
			require.NoError(t, err)
			require.Equal(t, summary(want.Exec(t.Context()), qs), summary(got.Exec(t.Context()), qs), "at %d", now)
		}
	}
	require.Positive(t, testutil.ToFloat64(e.metrics.declined.WithLabelValues(cpuexec.ReasonHistograms)))
}

// TestRandomNative compares random queries over native histograms and floats.
func TestRandomNative(t *testing.T) {
	const end = hour
	db := nativeDB(t, 3, end)
	seed := uint64(fromEnv(t, "SEED", 77))
	r := rand.New(rand.NewPCG(seed, 5))
	settled, _ := cached(t, db, end, true)
	young, _ := cached(t, db, end, false)
	for _, delayed := range []bool{false, true} {
		c := newComparison(delayed, 2)
		for n := range fromEnv(t, "QUERIES", 400) {
			qs := randomNative(r, 3)
			ask := question{query: qs, start: 600_000 + int64(r.IntN(1_000_000)), step: []int64{0, 15_000, 60_000}[r.IntN(3)]}
			ask.end = ask.start + int64(r.IntN(2_000_000))
			err := c.compare(t, []storage.Queryable{selection.Storage{Source: settled}, selection.Storage{Source: young}}[n%2], ask)
			require.NoError(t, err, "seed %d: %s", seed, ask)
		}
		whole, none := c.taken()
		t.Logf("on executors %v, not %v; %d answered, %d failed", whole, none, c.answered, c.failed)
		require.Greater(t, whole, 20.0)
		require.Greater(t, none, 50.0)
	}
}

// randomNative writes a query over the metrics of nativeDB.
func randomNative(r *rand.Rand, depth int) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	if depth == 0 || r.IntN(5) == 0 {
		name := pick("a", "b", "f", "g", "h", "turned", "f", "g")
		window := pick("[2m]", "[5m]", "[10m]") + pick("", "", " offset 3m", " @ 2000", " @ 1500")
		switch r.IntN(4) {
		case 0:
			return name
		case 1:
			return pick("rate", "increase", "delta", "sum_over_time", "last_over_time", "count_over_time", "resets") + "(" + name + window + ")"
		case 2:
			return name + pick(" offset 7m", " @ 1800", "")
		}
		return "sum by (job) (rate(" + name + window + "))"
	}
	in := func() string { return randomNative(r, depth-1) }
	switch r.IntN(6) {
	case 0:
		return pick("sum", "count", "avg", "max", "sum by (job)", "avg by (instance)", "group") + "(" + in() + ")"
	case 1, 2:
		op := pick("+", "-", "*", "/", ">", "== bool", "and", "or", "unless")
		on := pick(" on (job, instance) ", " ignoring (__name__) ", " ")
		return "(" + in() + ") " + op + on + "(" + in() + ")"
	case 3:
		return pick("histogram_count", "histogram_sum", "histogram_avg", "abs", "-") + "(" + in() + ")"
	case 4:
		return "histogram_quantile(" + pick("0.5", "0.9") + ", " + in() + ")"
	}
	return pick("max_over_time", "last_over_time", "count_over_time") + "((" + in() + ")[5m:1m])"
}
