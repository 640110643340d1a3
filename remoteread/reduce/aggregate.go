package reduce

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// mostSteps is the most steps that an aggregation is evaluated at.
const mostSteps = 1 << 17

// aggregatorOf returns what a reader aggregates the selector of h by. Hints have a grouping only
// if the aggregation is right around the selector, but none of a "without ()".
func aggregatorOf(h *storage.SelectHints, a asked) (*aggregate.Function, reason) {
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
	op, why := aggregatorOf(q.Hints, a)
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
	query, err := r.o.Engine.NewRangeQuery(ctx, selection.Single{Selection: sel}, opts, expr.String(), time.UnixMilli(a.first), time.UnixMilli(a.last), time.Duration(a.step)*time.Millisecond)
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

// Aggregate is a serve.Reduce that sends a series a group where it can, and otherwise what
// Thin sends.
func (r *Reducer) Aggregate(ctx context.Context, q serve.Query, sel *selection.Selection) (*selection.Selection, func(), error) {
	lease := r.o.Memory.Lease(memory.Answers)
	sent := sentAggregated
	out, why, err := r.aggregate(ctx, q, sel, lease)
	if err == nil && out == nil {
		var notThinned reason
		sent = sentThinned
		if out, notThinned, err = r.thin(ctx, q, sel, true, lease); notThinned != "" {
			sent = sentAll
		}
	}
	return r.reduction("aggregate", sent, why, out, lease, err)
}

// arrange puts groups into the order in which the reader has them: that of the first series of
// each that has a value at some step. It reports false where that depends on what the reader
// does not say: inside of a subquery the first step is none.
func (t *thinner) arrange(groups promql.Matrix) (bool, error) {
	if len(groups) < 2 {
		return true, nil
	}
	rank := make(map[string]int, len(groups))
	h := t.q.Hints
	b := labels.NewBuilder(labels.EmptyLabels())
	var w worker
	w.marker = marker{asked: t.asked, Sees: window.Latest}
	for i, l := range t.sel.Series() {
		b.Reset(l)
		if h.By {
			b.Keep(h.Grouping...)
		} else {
			b.Del(h.Grouping...)
			b.Del(model.MetricNameLabel)
		}
		key := b.Labels().String()
		if _, known := rank[key]; known {
			continue
		}
		seen, certain, err := t.visible(&w, i)
		if err != nil || !certain {
			return false, err
		}
		if seen {
			if rank[key] = i; len(rank) == len(groups) {
				break
			}
		}
	}
	slices.SortFunc(groups, func(a, b promql.Series) int {
		return cmp.Compare(rank[a.Metric.String()], rank[b.Metric.String()])
	})
	return true, nil
}

// visible reports whether series i has a value at some step, and whether that is so for a
// reader without the first step, too.
func (t *thinner) visible(w *worker, i int) (seen, certain bool, err error) {
	later := t.asked
	if t.steps() > 1 {
		later.first += t.step
	}
	part := *t
	part.asked = later
	if seen, err := part.anyValue(w, i); seen || err != nil || later == t.asked {
		return seen, true, err
	}
	seen, err = t.anyValue(w, i)
	return seen, !seen, err
}

// anyValue reports whether series i has a value at some step.
func (t *thinner) anyValue(w *worker, i int) (bool, error) {
	w.asked, w.values = t.asked, w.values[:0]
	_, err := t.series(w, i, nil) // which leaves what it keeps in w
	return slices.ContainsFunc(w.values, func(v float64) bool { return !value.IsStaleNaN(v) }), err
}
