package engine

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

// hintedQuerier notes what Prometheus's engine hints at, by the metric.
type hintedQuerier struct {
	storage.Querier
	hints map[string]storage.SelectHints
}

func (q hintedQuerier) Select(_ context.Context, _ bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	q.hints[ms[len(ms)-1].Value] = storage.SelectHints{Start: h.Start, End: h.End, Func: h.Func, Range: h.Range}
	return storage.EmptySeriesSet()
}

// TestHints: what reads a selector, and from when to when, is told as Prometheus's engine hints at it.
func TestHints(t *testing.T) {
	o := promql.EngineOpts{MaxSamples: math.MaxInt, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, LookbackDelta: 7 * time.Minute, NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 }}
	engine := promql.NewEngine(o)
	for _, text := range []string{
		"x", "(x)", "sum by (a) (x)", "sum(rate(x[5m]))", "rate(x[5m:1m])", "max_over_time(rate(x[5m])[1h:1m])", "rate((x)[5m:])",
		"sum(x + 1)", "-x", "increase(x[5m] offset 1m)", "rate(x[3m]) / on() sum(y offset -2m)", "max_over_time(sum(rate(x[2m] @ 700))[20m:1m] offset 5m) + y",
		"sum_over_time(max_over_time(x[10m:1m] offset 3m)[30m:5m] @ end()) - rate(y[1m])", "topk(3, x @ start())",
	} {
		want := map[string]storage.SelectHints{}
		queryable := storage.QueryableFunc(func(int64, int64) (storage.Querier, error) {
			return hintedQuerier{storage.NoopQuerier(), want}, nil
		})
		query, err := engine.NewRangeQuery(t.Context(), queryable, nil, text, time.Unix(100_000, 0), time.Unix(103_601, 0), 17*time.Second)
		require.NoError(t, err)
		got, stmt := map[string]storage.SelectHints{}, query.Statement().(*parser.EvalStmt)
		stmt.LookbackDelta = o.LookbackDelta
		found := hints(stmt)
		parser.Inspect(stmt.Expr, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				got[v.Name] = found[v.PosRange]
			}
			return nil
		})
		require.NoError(t, query.Exec(t.Context()).Err)
		require.Equal(t, want, got, text)
	}
}
