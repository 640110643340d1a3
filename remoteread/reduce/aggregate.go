package reduce

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// mostSteps is the most steps that an aggregation is evaluated at.
const mostSteps = 1 << 17

// aggregation returns what a reader aggregates the selector of h by. Hints have a grouping only
// if the aggregation is right around the selector, but none of a "without ()".
func aggregation(h *storage.SelectHints, a asked) (*aggregate.Function, reason) {
	if h.Range != 0 || !h.By && len(h.Grouping) == 0 {
		return nil, notGrouped
	}
	f := aggregate.Named(h.Func)
	if f == nil || a.steps() > mostSteps {
		return nil, noForm
	}
	op := aggregate.Of(f)
	switch {
	case op.Again == aggregate.Otherwise:
		return nil, noForm
	case op.Again == aggregate.Rounded && !a.sums:
		return nil, otherSums
	}
	return op, ""
}

// aggregate returns what q's reader may aggregate in place of sel, or nil, and why there is no
// such.
func (r *Reducer) aggregate(ctx context.Context, q serve.Query, sel *selection.Selection, lease *memory.Lease) (*selection.Selection, reason, error) {
	a, why := understand(q, r.o.Lookback)
	if why != "" {
		return nil, why, nil
	}
	op, why := aggregation(q.Hints, a)
	switch {
	case why != "":
		return nil, why, nil
	case !sel.OnlyFloats():
		return nil, withHistograms, nil
	case cut(q):
		return nil, cutByReader, nil
	case !apart(sel.Series(), q.External, op.Again):
		return nil, withExternal, nil
	}
	groups, query, err := r.evaluate(ctx, q, sel, a, op)
	if query != nil {
		defer query.Close() // which gives groups back
	}
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	if err != nil {
		return nil, notEvaluated, nil
	}
	inOrder, err := r.thinner(q, sel, a, window.Latest).arrange(groups)
	switch {
	case err != nil:
		return nil, "", err
	case !inOrder:
		return nil, noOrder, nil
	}
	f := form{grid: a.grid, b: selection.NewBuilder(0).Within(ctx), lease: lease, number: numberName(q.Hints), external: q.External}
	for _, g := range groups {
		if !unchanged(op.Again, g.Floats) {
			return nil, notIdempotent, nil
		}
		if err := f.add(ctx, op.Again, g); err != nil {
			return nil, "", err
		}
	}
	if f.disordered {
		return nil, noOrder, nil
	}
	out, err := f.b.Finish()
	return out, "", err
}

// evaluate evaluates what q's reader aggregates, over sel. What it returns is valid until the
// query, which may be nil, is closed.
func (r *Reducer) evaluate(ctx context.Context, q serve.Query, sel *selection.Selection, a asked, op *aggregate.Function) (promql.Matrix, promql.Query, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(op.Name + "(all)")
	if err != nil {
		return nil, nil, err
	}
	expr := parsed.(*parser.AggregateExpr)
	expr.Grouping, expr.Without, expr.Expr = q.Hints.Grouping, !q.Hints.By, &parser.VectorSelector{LabelMatchers: q.Matchers}
	opts := promql.NewPrometheusQueryOpts(false, time.Duration(a.width)*time.Millisecond)
	query, err := r.o.Engine.NewRangeQuery(ctx, only{sel}, opts, expr.String(), time.UnixMilli(a.first), time.UnixMilli(a.last), time.Duration(a.step)*time.Millisecond)
	if err != nil {
		return nil, nil, err
	}
	res := query.Exec(ctx)
	m, err := res.Matrix()
	if err == nil && len(res.Warnings) > 0 {
		err = res.Warnings.AsErrors()[0] // it does not pass the protocol
	}
	return m, query, err
}

// only is a storage that has one selection, and the querier on it.
type only struct{ sel *selection.Selection }

func (o only) Querier(mint, maxt int64) (storage.Querier, error) {
	return onlyQuerier{o, mint, maxt, storage.NoopQuerier()}, nil
}

type onlyQuerier struct {
	only
	mint, maxt int64
	storage.LabelQuerier
}

// SelectChunks implements selection.Querier.
func (o onlyQuerier) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return o.sel, nil, nil
}

// Select implements storage.Querier.
func (o onlyQuerier) Select(_ context.Context, _ bool, hints *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := selection.Bounds(hints, o.mint, o.maxt)
	return o.sel.SeriesSet(mint, maxt, nil)
}
