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
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// TestInstantOrder: the operators that keep series, and the functions that sort
// them, answer an instant query in the order of Prometheus's heaps and sorts,
// ties and NaN included, also where more are kept than Go's sort takes in one
// piece; and so does what is evaluated once for every step.
func TestInstantOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	st := teststorage.New(t)
	app := st.Appender(t.Context())
	for i := range 120 {
		v := []float64{float64(r.IntN(9)), math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[max(r.IntN(9)-4, 0)]
		_, err := app.Append(0, labels.FromStrings("__name__", "m", "a", fmt.Sprintf("%03d", i), "g", fmt.Sprint(r.IntN(3))), 1000, v)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	for _, delayed := range []bool{false, true} {
		opts := plainOpts()
		opts.EnableDelayedNameRemoval = delayed
		ours := New(Options{Prometheus: opts})
		opts.Reg = nil
		stock := promql.NewEngine(opts)
		for range 500 {
			pick := func(s ...string) string { return s[r.IntN(len(s))] }
			op := pick("topk", "bottomk", "limitk", "limit_ratio")
			param := fmt.Sprint(1 + r.IntN(70))
			if op == "limit_ratio" {
				param = fmt.Sprint(math.Round(r.Float64()*200-100) / 100)
			}
			qs := op + pick("", " by (g)", " without (a)", " by (__name__)") + "(" + param + ", " + pick("m", "-m", "m % 4", "m > 3", "sum by (g, a) (m)", "topk(60, m)", "limitk(50, m)", "count without (__name__) (m)") + ")"
			if r.IntN(3) == 0 {
				in := pick("m", "m % 4", "m > 3", qs, `label_replace(m, "n", "$1", "a", "(.).*")`)
				qs = pick("sort("+in+")", "sort_desc("+in+")", "sort_by_label("+in+`, "g")`, "sort_by_label_desc("+in+`, "nope", "g", "a")`)
			}
			qs = pick(qs, qs, "sum("+qs+")", qs+" * 2", "group by (g) ("+qs+")")
			exec := func(e promql.QueryEngine) *promql.Result {
				q, err := e.NewInstantQuery(context.Background(), st, nil, qs, time.UnixMilli(2000))
				require.NoError(t, err)
				return q.Exec(context.Background())
			}
			require.Equal(t, summary(exec(stock), qs), summary(exec(ours), qs), qs)
			x, err := ours.Explain(t.Context(), st, nil, qs, time.UnixMilli(2000), time.UnixMilli(2000), 0, true)
			require.NoError(t, err)
			require.Equal(t, plan.OnCPU, x.Root.Executor, qs)
		}
	}
}
