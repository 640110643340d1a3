package engine

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// TestSetsWithDelayedNames: where only one side of an or is to lose its names
// later, Prometheus's engine keeps count of which.
func TestSetsWithDelayedNames(t *testing.T) {
	st := promqltest.LoadedStorage(t, "load 30s\n  a{i=\"1\"} 1x100\n  b{i=\"2\"} 2x100")
	opts := plainOpts()
	opts.EnableDelayedNameRemoval = true
	for qs, executor := range map[string]string{
		"a or b": plan.OnCPU, "-a or -b": plan.OnCPU, "-a or b": plan.OnPrometheus,
		"-a and on () b": plan.OnCPU, "a unless -b": plan.OnCPU, "a > bool on () b": plan.OnCPU, "-a > on () -b": plan.OnCPU,
	} {
		opts.Reg = prometheus.NewRegistry()
		want := ranged(t, promql.NewEngine(opts), t.Context(), st, qs)
		opts.Reg = prometheus.NewRegistry()
		e := New(Options{Prometheus: opts})
		got := ranged(t, e, t.Context(), st, qs)
		require.Equal(t, summary(want, qs), summary(got, qs), qs)
		whole := testutil.ToFloat64(e.metrics.queries.WithLabelValues("whole"))
		require.Equal(t, executor == plan.OnCPU, whole == 1, qs)
	}
}
