package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// strictly asks for the cores, and takes it for an error if they do not evaluate all
// of a query.
func strictly(e *Engine) promql.QueryEngine { return as{e, Request{Mode: CPU, Strict: true}} }

// edgesLength is how long the series of edgeStorage are, in ms.
const edgesLength = 40 * minute

// edgeStorage holds series whose samples lie on multiples of 5 s, mostly, and so on the
// edges of windows: counters with resets and gauges with NaN, ±Inf and -0, with gaps
// and stale markers; series of one sample, and of a few far apart. Start timestamps are
// those of counters, of deltas, random ones, or none.
func edgeStorage(t testing.TB, r *rand.Rand, o ...teststorage.Option) storage.Storage {
	st := teststorage.New(t, o...)
	app := st.AppenderV2(context.Background())
	for _, name := range []string{"a_total", "b_total", "gauge", "rare"} {
		for inst := range 10 {
			l := labels.FromStrings("__name__", name, "i", fmt.Sprint(inst), "k", fmt.Sprint(inst%3))
			every := []int64{5, 15, 30, 60}[r.IntN(4)] * 1000
			if name == "rare" {
				every = []int64{3, 4, 7, 100}[r.IntN(4)] * minute
			}
			v, last, began, up := 0.0, int64(0), int64(0), true
			for ts := 5000 * r.Int64N(60); ts < edgesLength; ts += every {
				if r.IntN(8) == 0 {
					ts += r.Int64N(3)
				}
				if r.IntN(30) == 0 {
					up = !up
					if !up && r.IntN(2) == 0 {
						_, err := app.Append(0, l, 0, ts, math.Float64frombits(value.StaleNaN), nil, nil, storage.AppendV2Options{})
						require.NoError(t, err)
						continue
					}
				}
				if !up {
					continue
				}
				switch {
				case name == "gauge" && r.IntN(6) == 0:
					v = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, math.Copysign(0, -1)}[r.IntN(6)]
				case name == "gauge":
					v = r.NormFloat64()
				case r.IntN(20) == 0:
					v = float64(r.IntN(3)) // which is no reset if there was no more
					began = ts - r.Int64N(every)
				default:
					v += float64(r.IntN(5)) * []float64{1, 0.1}[inst%2]
				}
				start := int64(0)
				switch inst % 5 {
				case 1:
					start = began
				case 2:
					start = last
				case 3:
					start = ts - []int64{0, 1, every - 1, every, every + 1, -5, 40_000, ts}[r.IntN(8)]
				case 4:
					start = began / 2
				}
				last = ts
				_, err := app.Append(0, l, start, ts, v, nil, nil, storage.AppendV2Options{})
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, app.Commit())
	return st
}

// edgeWindow writes a function whose windows are extended or that uses start
// timestamps, or both.
func edgeWindow(r *rand.Rand, starts bool) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	sel := pick("a_total", "b_total", "gauge", "rare", `a_total{i="3"}`, `rare{k="1"}`, `b_total{i!="2"}`)
	window := pick("[5s]", "[15s]", "[30s]", "[1m]", "[5m]", "[7m]", "[1ms]", "[61s]")
	mod := pick("", "", "", "", " offset 1m", " offset -2m", " offset 5s", " offset -1ms", " @ 1200", " @ end()", " @ start() offset 30s")
	switch r.IntN(12) {
	case 0, 1:
		return sel + " smoothed" + mod
	case 2:
		return sel + mod + " anchored"
	case 3, 4, 5:
		return pick("rate", "increase", "delta") + "(" + sel + window + " smoothed" + mod + ")"
	case 6, 7:
		return pick("rate", "increase", "delta", "changes", "resets", "resets") + "(" + sel + window + mod + " anchored)"
	case 8:
		if starts {
			return pick("timestamp", "start_timestamp", "start_timestamp") + "(" + sel + pick("", " smoothed", " offset 1m", " @ 900") + ")"
		}
	}
	return pick("rate", "rate", "increase", "irate", "resets") + "(" + sel + window + mod + ")"
}

// edgeQuery writes an expression over such functions that the cores take wholly,
// whatever the data. Of a range, what begins a step-invariant part is taken alone, so
// there none does.
func edgeQuery(r *rand.Rand, starts bool) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	in := func() string { return edgeWindow(r, starts) }
	by := func() string { return pick("", " by (k)", " by (i)", " without (i)") }
	switch r.IntN(9) {
	case 0, 1, 2:
		return in()
	case 3:
		return pick("sum", "avg", "max", "min", "count", "stddev", "group") + by() + "(" + in() + ")"
	case 4:
		return pick("quantile", "topk", "bottomk") + by() + "(" + pick("1", "0.5") + ", " + in() + ")"
	case 5:
		arg := in()
		for strings.Contains(arg, "@") { // which Prometheus shifts by the subquery's offset
			arg = in()
		}
		return pick("max_over_time", "sum_over_time", "count_over_time", "last_over_time", "rate", "resets") + "((" + arg + ")" + pick("[10m:1m]", "[5m:30s]", "[3m:17s]") + pick("", " offset 30s") + ")"
	case 6:
		return "(" + in() + ")" + pick(" + ", " / ", " > ", " - ", " and ", " unless ") + "on (i, k) (" + in() + ")"
	case 7:
		return pick("abs", "-", "2 * ", "round") + "(" + in() + ")"
	default:
		return "sum" + by() + "(" + in() + ") / sum" + by() + "(" + in() + ")"
	}
}

// TestExtended: anchored and smoothed selectors and start timestamps come to what they
// come to in Prometheus's engine, bit by bit and with its annotations and statistics,
// all of it on the cores.
func TestExtended(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 2000) / 4
	for k := range 4 {
		delayed, starts := k&1 > 0, k&2 > 0
		t.Run(fmt.Sprintf("delayed=%v/starts=%v", delayed, starts), func(t *testing.T) {
			r := rand.New(rand.NewPCG(31, uint64(k)))
			c := newComparison(delayed, 2, useStarts(starts))
			c.asked = strictly(c.ours)
			var st storage.Storage
			for i := range n {
				if i%200 == 0 {
					st = edgeStorage(t, r, asXOR2)
				}
				start := r.Int64N(edgesLength/5000) * 5000
				ask := question{query: edgeQuery(r, starts), start: start, end: start + r.Int64N(20)*minute, step: []int64{1, 5, 15, 30, 61, 300}[r.IntN(6)] * 1000}
				ask.lookback = []time.Duration{0, 0, 20 * time.Second, 61 * time.Second, 15 * time.Minute}[r.IntN(5)]
				if r.IntN(3) == 0 {
					ask.end, ask.step = ask.start, 0
				}
				require.NoError(t, c.compare(t, st, ask))
			}
			whole, none := c.taken()
			t.Logf("%d queries with series, %d errors, %d undecided; %v on the cores, %v not; %v windows", c.answered, c.failed, c.undecided, whole, none,
				testutil.ToFloat64(c.ours.metrics.nodes.WithLabelValues("cpu", "window")))
			require.Greater(t, c.answered, n/2)
		})
	}
}

// TestExtendedOverBlocks is the same over blocks that overlap, as of two replicas or with
// samples that came late.
func TestExtendedOverBlocks(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 2000) / 8
	for _, starts := range []bool{false, true} {
		t.Run(fmt.Sprintf("starts=%v", starts), func(t *testing.T) {
			r := rand.New(rand.NewPCG(32, 1))
			c := newComparison(true, 2, useStarts(starts))
			c.asked = strictly(c.ours)
			var data *blocks
			for i := range n {
				if i%50 == 0 {
					data = newBlocks(t, r.Uint64())
				}
				sel := []string{"reqs_total", "errs_total", `{__name__=~"reqs_total|errs_total"}`, "temp", "once"}[r.IntN(5)]
				window, mod := []string{"[30s]", "[1m]", "[5m]", "[17m]"}[r.IntN(4)], []string{"", " offset 1m", " offset -90s"}[r.IntN(3)]
				qs := []string{"rate", "increase", "irate", "resets"}[r.IntN(4)] + "(" + sel + window + mod + ")"
				if r.IntN(3) > 0 {
					qs = anyExtended(r, sel, window, mod)
				}
				start := r.Int64N(blocksLength/1000) * 1000
				ask := question{query: qs, start: start, end: start + r.Int64N(hour), step: int64(1+r.IntN(90)) * 1000}
				if err := ranged(t, c.stock, t.Context(), data, qs).Err; err != nil || !starts && strings.Contains(qs, "start_timestamp") {
					continue // of those the cores leave some to Prometheus's engine
				}
				require.NoError(t, c.compare(t, data, ask))
			}
			require.Greater(t, c.answered, n/2)
		})
	}
}

// TestStartsOverCache: start timestamps come over remote read and through the cache as
// they are in the store, up to the newest sample.
func TestStartsOverCache(t *testing.T) {
	worlds := 0
	for seed := uint64(0); worlds < 3; seed++ {
		r := rand.New(rand.NewPCG(seed, 5))
		w := newMoving(t, r)
		if !w.starts {
			continue
		}
		worlds++
		c := newComparison(false, 2, useStarts(true))
		w.advance(2 * hour)
		for range 20 {
			w.advance(r.Int64N(2*minute) + 1000)
			for _, qs := range []string{"increase(reqs_total[5m])", "resets(errs_total[10m])", "start_timestamp(reqs_total)", anyExtended(r, "temp", "[3m]", "")} {
				ask := question{query: qs, start: w.now - 50*minute, end: w.now, step: 30_000}
				data := &recorded{from: selection.Storage{Source: w.cache}}
				got, _ := answerOf(t, c.ours, data, ask)
				data.close()
				want, err := ask.on(c.stock, w.db)
				require.NoError(t, err)
				requireSameText(t, summary(want.Exec(t.Context()), qs), got, ask)
				want.Close()
			}
		}
	}
}

// TestGPUExtended: with a GPU forced, the cores evaluate what no GPU can, and it is said
// why.
func TestGPUExtended(t *testing.T) {
	gpus, reg := testGPUs(t)
	r := rand.New(rand.NewPCG(34, 1))
	st := edgeStorage(t, r, asXOR2)
	c := newComparison(false, 2, useStarts(true)).onGPUs(gpus)
	for range 200 {
		start := r.Int64N(edgesLength/5000) * 5000
		ask := question{query: edgeQuery(r, true), start: start, end: start + r.Int64N(20)*minute, step: 30_000}
		require.NoError(t, c.compare(t, st, ask))
	}
	reasons := declines(t, reg)
	t.Logf("%v leaves on the GPU; left to the cores: %v", metric(t, reg, "promwarp_gpu_jobs_total"), reasons)
	for _, reason := range []string{"anchored and smoothed selectors are not on the GPU yet", "samples with start timestamps are not on the GPU yet"} {
		require.Greater(t, reasons[reason], 20.0, reason)
	}
	require.Positive(t, metric(t, reg, "promwarp_gpu_jobs_total"))
	require.Zero(t, metric(t, reg, "promwarp_gpu_faults_total"))
}
