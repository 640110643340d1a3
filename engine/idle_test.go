package engine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// TestIdle: a query that reads no samples leaves nothing to an executor. The
// explanation says so, and nobody is told that anything was left.
func TestIdle(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	start, end := time.UnixMilli(600_000), time.UnixMilli(3_000_000)
	for _, qs := range []string{
		"1 + 1", "time()", "vector(1)", "hour()", "-time() * pi()", "vector(time()) > 3", "sum_over_time(vector(1)[5m:1m])",
		"max_over_time(temp[1s:1h])", `label_replace(vector(1), "a", "b", "", "")`,
	} {
		e := New(Options{Prometheus: plainOpts()})
		x, err := e.Explain(t.Context(), st, nil, qs, start, end, time.Minute, true)
		require.NoError(t, err, qs)
		x.Root.Walk(func(d *plan.Decision) {
			require.Equal(t, plan.OnPrometheus, d.Executor, "%s of %s", d.Expr, qs)
			require.True(t, d.Idle, "%s of %s", d.Expr, qs)
			require.Contains(t, []string{"it reads no samples", "it is evaluated at no step"}, d.Reason, "%s of %s", d.Expr, qs)
		})
		require.Equal(t, 1.0, testutil.ToFloat64(e.metrics.queries.WithLabelValues("idle")), qs)
		require.Zero(t, testutil.CollectAndCount(e.metrics.stayed), qs)
		require.NoError(t, ranged(t, e, WithMode(t.Context(), CPU, true), st, qs).Err, qs)
	}

	// Beside what reads samples it is an executor's.
	e := New(Options{Prometheus: plainOpts()})
	for _, qs := range []string{"sum(temp) or vector(1)", "hour() > 1 and on () temp", "temp * time()", "scalar(sum(temp)) + 1", "-scalar(sum(temp))"} {
		x, err := e.Explain(t.Context(), st, nil, qs, start, end, time.Minute, true)
		require.NoError(t, err, qs)
		x.Root.Walk(func(d *plan.Decision) { require.Equal(t, plan.OnCPU, d.Executor, "%s of %s", d.Expr, qs) })
		require.NotNil(t, x.Root.Work, qs)
		require.Positive(t, x.Root.Work.Samples, qs)
	}
	require.Equal(t, 5.0, testutil.ToFloat64(e.metrics.queries.WithLabelValues("whole")))
}
