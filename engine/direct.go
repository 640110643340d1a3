package engine

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// direct reports whether part p is a whole range query, whose result need not
// pass through Prometheus's engine point by point. That engine still runs the
// query, with its timeout, tracker, log and statistics, over an empty stand-in;
// the part is computed when it reads that, and its matrix is the result when it
// has ended.
func (q *query) direct(p *planner.Part) bool {
	return p.Slot == &q.stmt.Expr && p.Outer == 0 && q.stmt.Interval > 0 && !q.e.opts.Prometheus.EnableDelayedNameRemoval
}

// remembers reports whether the results of part p may come from earlier queries, and
// be kept for later ones. An executor that was asked for evaluates all itself, and a
// query whose statistics are asked for must know what Prometheus's engine would hold.
func (q *query) remembers(p *planner.Part) bool {
	return q.e.results != nil && q.mode == Auto && !q.stats && q.direct(p)
}

// claimDirect notes the result m of a whole query and returns what the stand-in
// yields instead: nothing.
func (q *query) claimDirect(m *plan.Matrix) (*plan.Matrix, error) {
	if most := q.e.opts.Prometheus.MaxSamples; most > 0 && m.Points() > int64(most) {
		return nil, &evalError{promql.ErrTooManySamples("query execution")}
	}
	q.whole = m
	q.peak = max(q.peak, int(m.Points()))
	return &plan.Matrix{Grid: m.Grid, Annotations: m.Annotations}, nil
}

// matrix returns m, which is the query's, as Prometheus's engine returns results.
func (q *query) matrix(m *plan.Matrix) (promql.Matrix, error) {
	n := int(m.Points())
	if err := q.budget.Charge(16 * int64(n)); err != nil {
		return nil, err
	}
	free := make([]promql.FPoint, n)
	out := make(promql.Matrix, len(m.Rows))
	for i := range m.Rows {
		k := len(m.Rows[i].Values)
		out[i] = promql.Series{Metric: m.Rows[i].Labels, Floats: free[:0:k]}
		free = free[k:]
	}
	q.e.cpu.Each(len(m.Rows), n, func(i int) {
		for t, v := range m.Rows[i].All(m.Grid) {
			out[i].Floats = append(out[i].Floats, promql.FPoint{T: t, F: v})
		}
	})
	return out, nil
}

// sort sorts the rows of a result by labels, as results of range queries are. Where the
// query's context ends meanwhile, it gives up and returns the error of that.
func (q *query) sort(rows []plan.Row) error {
	byLabels := func(a, b plan.Row) int { return labels.Compare(a.Labels, b.Labels) }
	if slices.IsSortedFunc(rows, byLabels) {
		return nil
	}
	calls, ended := 0, false
	slices.SortFunc(rows, func(a, b plan.Row) int {
		if calls++; calls%(1<<14) == 0 && q.ctx.Err() != nil {
			ended = true
		}
		if ended {
			return 0 // any order will do
		}
		return byLabels(a, b)
	})
	if !ended {
		return nil
	}
	return plan.Ended(q.ctx)
}

// Close implements promql.Query. The result must not be used any more.
func (q *query) Close() {
	q.closeFetches()
	q.Query.Close()
	q.release()
	q.lease.Release()
}
