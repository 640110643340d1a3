package engine

import (
	"slices"
	"sort"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// direct reports whether part p is a whole range query, whose result need not
// pass through Prometheus's engine point by point. That engine still runs the
// query, with its timeout, tracker, log and statistics, over an empty stand-in;
// the part is computed when it reads that, and the result put in place when it
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

// takeDirect keeps the result m of a whole query and returns what the stand-in
// yields instead: nothing.
func (q *query) takeDirect(m *plan.Matrix) (*plan.Matrix, error) {
	if most := q.e.opts.Prometheus.MaxSamples; most > 0 && m.Points() > int64(most) {
		return nil, &evalError{promql.ErrTooManySamples("query execution")}
	}
	if err := q.budget.Charge(16 * m.Points()); err != nil {
		return nil, &evalError{err}
	}
	q.whole = m
	q.peak = max(q.peak, int(m.Points()))
	return &plan.Matrix{Grid: m.Grid, Annotations: m.Annotations}, nil
}

// points are the memory of a result.
type points struct{ p []promql.FPoint }

var pointsPool = sync.Pool{New: func() any { return new(points) }}

// matrix returns m as the result of a range query, sorted as those are. The
// points are q's until it is closed.
func (q *query) matrix(m *plan.Matrix) (promql.Matrix, error) {
	n := int(m.Points())
	q.points = pointsPool.Get().(*points)
	if cap(q.points.p) < n {
		q.points.p = make([]promql.FPoint, n)
	}
	free := q.points.p[:n]
	out := make(promql.Matrix, len(m.Rows))
	for i := range m.Rows {
		k := len(m.Rows[i].Values)
		out[i] = promql.Series{Metric: m.Rows[i].Labels, Floats: free[:k:k]}
		free = free[k:]
	}
	q.e.cpu.Each(len(m.Rows), n, func(i int) {
		row, at := &m.Rows[i], 0
		for _, run := range row.Runs {
			t := m.Grid.At(int(run.First))
			for _, v := range row.Values[at : at+int(run.Len)] {
				out[i].Floats[at] = promql.FPoint{T: t, F: v}
				t += m.Grid.Interval
				at++
			}
		}
	})
	if sort.IsSorted(out) {
		return out, nil
	}
	return out, q.sort(out)
}

// sort sorts a result by labels. Where the query's context ends meanwhile, it gives up and
// returns the error of that.
func (q *query) sort(out promql.Matrix) error {
	calls, ended := 0, false
	slices.SortFunc(out, func(a, b promql.Series) int {
		if calls++; calls%(1<<14) == 0 && q.ctx.Err() != nil {
			ended = true
		}
		if ended {
			return 0 // any order will do
		}
		return labels.Compare(a.Metric, b.Metric)
	})
	if !ended {
		return nil
	}
	return plan.Ended(q.ctx)
}

// Close implements promql.Query. The result must not be used any more.
func (q *query) Close() {
	q.Query.Close()
	if q.points != nil {
		pointsPool.Put(q.points)
		q.points = nil
	}
	q.lease.Release()
}
