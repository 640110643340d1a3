package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// bitsQuery writes an expression of functions that stay within 1e-12, in which cancellation,
// comparisons and labels make much of little.
func bitsQuery(r *rand.Rand) string {
	arg := func() string {
		if r.IntN(5) == 0 {
			return "(" + identicalQuery(r, 1) + ")" + oneOf(r, "[10m:1m]", "[40m:]", "[9m:17s]")
		}
		return oneOf(r, "reqs_total", "errs_total", "temp", "odd", `{job="j1"}`) + oneOf(r, "[5m]", "[17m]", "[40m]", "[90s]") + oneOf(r, "", "", " offset 3m", " @ end()")
	}
	w := func() string { return anyWindow(r, plan.Compensated, arg()) }
	switch r.IntN(8) {
	case 0:
		return w() + " - " + w()
	case 1:
		return w() + oneOf(r, " == ", " > ", " <= bool ") + w()
	case 2:
		return oneOf(r, "sum by (job) (", "avg(", "stddev by (instance) (", "quantile by (job) (0.3, ", "topk(2, ", `count_values("v", `) + w() + ")"
	case 3:
		return oneOf(r, "round(", "floor(", "ln(") + w() + ")"
	case 4:
		return "stddev_over_time((" + w() + ")[10m:1m])"
	}
	return w()
}

// TestBits: with exact=bits all answers have the bits of Prometheus's engine, and executors compute
// them. PROMWARP_RANDOM sets the number of queries.
func TestBits(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 2000)
	r := rand.New(rand.NewPCG(17, 3))
	st := randomStorage(t, r)
	c := newComparison(false, 3)
	opts := c.ours.opts
	opts.Prometheus.Reg, opts.Exact = nil, plan.Bits
	c.ours = New(opts)
	c.asked = c.ours
	for range n {
		ask := question{query: bitsQuery(r), start: int64(r.IntN(3600)) * 1000, step: int64(1+r.IntN(90)) * 1000}
		ask.end = ask.start + int64(r.IntN(1800))*1000
		require.NoError(t, c.compare(t, st, ask))
	}
	whole, _ := c.taken()
	t.Logf("%d queries: %v on cpuexec; %d with series, %d undecided", n, whole, c.answered, c.undecided)
	require.Greater(t, whole, 0.85*float64(n))
	require.LessOrEqual(t, c.undecided, n/100)
}

// TestBitsOfRequests: what 1e-12 comes to where values nearly cancel, and where they are compared. A
// request has bits against the engine's own setting, and an engine's setting holds without one.
func TestBitsOfRequests(t *testing.T) {
	st := teststorage.New(t)
	app := st.AppenderV2(context.Background())
	r := rand.New(rand.NewPCG(5, 5))
	for k := range 3 * 240 {
		_, err := app.Append(0, labels.FromStrings("__name__", "g"), 0, int64(k)*15_000, 1e6+r.Float64(), nil, nil, storage.AppendV2Options{})
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	c := newComparison(false, 2)
	opts := c.ours.opts
	opts.Prometheus.Reg, opts.Exact = nil, plan.Bits
	bits := New(opts)
	answer := func(e *Engine, exact plan.Exact, ask question) string {
		q, err := e.NewQuery(t.Context(), Request{Storage: st, Query: ask.query, Start: time.UnixMilli(ask.start), End: time.UnixMilli(ask.end), Step: 15 * time.Second, Exact: exact})
		require.NoError(t, err)
		defer q.Close()
		defer func() { require.NotNil(t, q.(*query).plan.Node, "%s is not on an executor", ask.query) }()
		return summary(q.Exec(t.Context()), ask.query)
	}
	ask := question{query: "avg_over_time(g[1h])", start: 3_600_000, end: 10_800_000, step: 15_000}
	wq, err := ask.on(c.stock, st)
	require.NoError(t, err)
	m, err := wq.Exec(t.Context()).Matrix()
	require.NoError(t, err)
	queries := []string{"avg_over_time(g[1h]) - avg_over_time(g[55m])"}
	for k := 0; k < len(m[0].Floats); k += 10 {
		queries = append(queries, fmt.Sprintf("avg_over_time(g[1h]) == %v", m[0].Floats[k].F))
	}
	wq.Close()
	differ := 0
	for _, ask.query = range queries {
		wq, err := ask.on(c.stock, st)
		require.NoError(t, err)
		want := summary(wq.Exec(t.Context()), ask.query)
		wq.Close()
		require.Equal(t, want, answer(c.ours, plan.Bits, ask), ask.query)
		require.Equal(t, want, answer(bits, "", ask), ask.query)
		loose := answer(bits, plan.WithinTolerance, ask)
		require.Equal(t, loose, answer(c.ours, "", ask), ask.query)
		if loose != want {
			differ++
		}
	}
	require.Greater(t, differ, 1, "within 1e-12 a difference and a comparison come to something else")
	x, err := c.ours.Explain(t.Context(), Request{Exact: plan.Bits, Storage: st, Query: ask.query, Start: time.UnixMilli(0), End: time.UnixMilli(60_000), Step: 15 * time.Second}, false)
	require.NoError(t, err)
	require.Contains(t, x.Tree(), "exact     bits")
}
