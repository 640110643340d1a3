package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/memory"
)

// TestMemoryOfPrometheus: what Prometheus's engine holds is charged as what executors hold
// is: a query of a large result fails, whoever evaluates it, and a small one does not.
func TestMemoryOfPrometheus(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 23)))
	ctx := WithMode(t.Context(), Prometheus, false)
	for _, qs := range []string{
		"reqs_total", "reqs_total + 1", "rate(reqs_total[5m])", "max_over_time(rate(reqs_total[5m])[10m:1m])", `{__name__=~"reqs.*"} * 1`,
	} {
		want := ranged(t, New(Options{Prometheus: plainOpts()}), ctx, st, qs)
		require.NoError(t, want.Err)
		points := 0
		for _, s := range want.Value.(promql.Matrix) {
			points += len(s.Floats) + len(s.Histograms)
		}
		res := ranged(t, New(Options{Prometheus: plainOpts(), MaxMemory: int64(16 * points)}), ctx, st, qs)
		require.ErrorAs(t, res.Err, new(*operator.MemoryError), qs)
		require.ErrorContains(t, res.Err, "query needs more than", "as it is, without a word about the storage")
		res = ranged(t, New(Options{Prometheus: plainOpts(), MaxMemory: int64(400*points + 1<<20)}), ctx, st, qs)
		require.Equal(t, want, res, qs)
	}
}

// TestMemoryOfSubqueries: subqueries that read no samples, or many of one series, are
// charged for what they make.
func TestMemoryOfSubqueries(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 24)))
	e := New(Options{Prometheus: plainOpts(), MaxMemory: 1 << 20})
	for _, qs := range []string{
		"count_over_time(vector(time())[1y:1s])", "sum_over_time((vector(1) + time())[60d:])", `max_over_time((count_over_time(vector(1)[1d:1m]))[30d:1m])`,
		`count_over_time((count({__name__=~"reqs.*"}) or vector(1))[10d:1s])`,
	} {
		start := time.Now()
		q, err := e.NewInstantQuery(t.Context(), st, nil, qs, time.Unix(3600, 0))
		require.NoError(t, err)
		res := q.Exec(t.Context())
		require.ErrorAs(t, res.Err, new(*operator.MemoryError), qs)
		require.Less(t, time.Since(start), 20*time.Second)
		q.Close()
	}
	q, err := e.NewInstantQuery(t.Context(), st, nil, "count_over_time(vector(1)[1h:1s])", time.Unix(3600, 0))
	require.NoError(t, err)
	require.NoError(t, q.Exec(t.Context()).Err)
	q.Close()
}

// TestMemoryOfSelectors: a query of many selectors is charged for them before any is read, and gives
// that back when it has its result.
func TestMemoryOfSelectors(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 26)))
	pool := memory.New(memory.Options{Limit: 16 << 20, Wait: time.Millisecond})
	e := New(Options{Prometheus: plainOpts(), Memory: pool})
	for _, mode := range []Mode{Prometheus, CPU} {
		for qs, refused := range map[string]bool{
			strings.Repeat("absent_metric or ", 900) + "absent_metric":               true,
			"absent_metric{" + strings.Repeat(`a!="b",`, 199) + "} or absent_metric": false,
			strings.Repeat("absent_metric or ", 300) + "absent_metric":               false,
		} {
			q, err := e.NewInstantQuery(WithMode(t.Context(), mode, false), st, nil, qs, time.Unix(3600, 0))
			require.NoError(t, err)
			err = q.Exec(t.Context()).Err
			if refused {
				require.ErrorAs(t, err, new(*memory.TooLargeError), mode)
			} else {
				require.NoError(t, err, mode)
				require.Less(t, pool.Used(), int64(1<<20), "once there is a result")
			}
			q.Close()
			require.Zero(t, pool.Used())
		}
	}
}

// TestMemoryOfProcess: queries hold memory of the process until they are closed, and one
// that finds none is told to come back.
func TestMemoryOfProcess(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(21, 25)))
	pool := memory.New(memory.Options{Limit: 5 << 20, Wait: time.Millisecond})
	e := New(Options{Prometheus: plainOpts(), Memory: pool})
	for _, mode := range []Mode{Prometheus, CPU} {
		ctx := WithMode(t.Context(), mode, false)
		var open []promql.Query
		var refused error
		for refused == nil && len(open) < 100 {
			q, err := e.NewRangeQuery(ctx, st, nil, "reqs_total * 2", time.Unix(0, 0), time.Unix(7200, 0), 10*time.Second)
			require.NoError(t, err)
			open = append(open, q)
			refused = q.Exec(ctx).Err
		}
		require.ErrorAs(t, refused, new(*memory.BusyError), fmt.Sprint(mode))
		require.Greater(t, len(open), 2)
		for _, q := range open {
			q.Close()
		}
		require.Zero(t, pool.Used())
	}
}
