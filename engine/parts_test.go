package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

// crowdStorage has 300 series of three jobs of unequal sizes, so many samples that all workers
// take part, with gaps, series that begin late, and values whose sum depends on their order.
func crowdStorage(t testing.TB, r *rand.Rand) storage.Storage {
	st := teststorage.New(t)
	app := st.AppenderV2(context.Background())
	for i := range 300 {
		job := "a"
		switch {
		case i%10 == 3:
			job = "c"
		case i%4 == 1:
			job = "b"
		}
		at := labels.FromStrings("__name__", "m", "instance", fmt.Sprintf("i%03d", i), "job", job)
		first, v := int64(r.IntN(3)*r.IntN(40)), 0.0
		for k := first; k < 200; k++ {
			if r.IntN(50) == 0 {
				k += int64(r.IntN(30))
			}
			v += r.ExpFloat64() * math.Exp(float64(r.IntN(60)-30))
			_, err := app.Append(0, at, 0, k*15_000+int64(i%7), v, nil, nil, storage.AppendV2Options{})
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	return st
}

// TestPartsOfSteps: where workers add to parts of a group's steps at once, the bits are those of
// Prometheus's engine, in each of some runs.
func TestPartsOfSteps(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	st := crowdStorage(t, rand.New(rand.NewPCG(seed, 6)))
	ask := func(e promql.QueryEngine, qs string) string {
		query, err := e.NewRangeQuery(t.Context(), st, nil, qs, time.UnixMilli(0), time.UnixMilli(3_000_000), 2*time.Second)
		require.NoError(t, err)
		defer query.Close()
		return summary(query.Exec(t.Context()), qs)
	}
	stock := promql.NewEngine(plainOpts())
	for _, qs := range []string{
		"sum(rate(m[5m]))", "sum by (job) (increase(m[1m]))", "avg(m)", "avg by (job) (m)", "max by (job) (m)", "min(m)", "count by (job) (m > 1)", "group(m)",
		"sum by (job) (m) / on () group_left () sum(m)",
	} {
		want := ask(stock, qs)
		for _, workers := range []int{3, 7, 16} {
			e := New(Options{Prometheus: plainOpts(), Workers: workers})
			for range 3 {
				require.Equal(t, want, ask(e, qs), "%s with %d workers", qs, workers)
			}
		}
	}
}
