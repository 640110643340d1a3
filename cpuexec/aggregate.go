package cpuexec

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

func (r *run) aggregate(n *plan.Aggregate) ([]plan.Row, error) {
	var p aggregate.Parameter
	if n.Func.Param {
		var err error
		if p, err = r.parameter(n); err != nil {
			return nil, err
		}
		// Prometheus's engine holds the parameter's samples meanwhile.
		r.Held += r.job.Grid.Steps
		defer func() { r.Held -= r.job.Grid.Steps }()
		if r.Matrix.Peak = max(r.Matrix.Peak, r.Held); r.job.MaxSamples > 0 && r.Held > r.job.MaxSamples {
			return nil, promql.ErrTooManySamples("query execution")
		}
	}
	switch {
	case n.Func.Keeps:
		return r.selected(n, p)
	case n.Func.Adds():
		a, err := r.accumulate(n)
		if err != nil {
			return nil, err
		}
		rows := a.Rows()
		if r.ordered {
			r.first = a.FirstSeries(rows)
		}
		r.Free(a, rows)
		return rows, nil
	}
	if bottom, above := vector.Under(n.Input); r.job.Accelerator != nil && n.Label == "" {
		if w, ok := bottom.(*plan.Window); ok {
			return r.quantilesOver(n, p, w, above)
		}
	}
	in, err := r.node(n.Input)
	if err != nil {
		return nil, err
	}
	defer r.Charge(-operator.RowsBytes(in))
	if n.Label != "" {
		return aggregate.CountValues(r.Query, n, in)
	}
	return aggregate.Quantiles(r.Query, n, p, in)
}

// selected evaluates an operator that keeps some of its input's series.
func (r *run) selected(n *plan.Aggregate, p aggregate.Parameter) ([]plan.Row, error) {
	var s aggregate.Selector = aggregate.Nothing{}
	none, fails := p.Check(r.Query, n)
	err := r.feed(n, func(in aggregate.Input) operator.Sink {
		if !none && fails == nil {
			s = aggregate.NewSelector(n, p, r.Query, in)
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	if fails != nil {
		return nil, fails // once the input has been evaluated without an error
	}
	return s.Rows(r.Query), nil
}

// quantilesOver evaluates the quantile operator over a window and the chain above
// that.
func (r *run) quantilesOver(n *plan.Aggregate, p aggregate.Parameter, w *plan.Window, above vector.Chain) ([]plan.Row, error) {
	var q *aggregate.Quantiler
	err := r.window(w, above, func(s *source) operator.Sink {
		q = aggregate.NewQuantiler(n, r.Query, s.input(n))
		return q
	})
	if err != nil {
		return nil, err
	}
	return q.Results(r.Query, p)
}

// accumulate evaluates an aggregation that adds value to value.
func (r *run) accumulate(n *plan.Aggregate) (a *aggregate.Adder, err error) {
	defer r.Holding()()
	err = r.feed(n, func(in aggregate.Input) operator.Sink {
		a = aggregate.NewAdder(n, r.Query, in, r.ordered)
		return a
	})
	return a, err
}

// feed evaluates the input of the aggregation n and hands its series, in order
// and batch by batch, to the sink that makeSink makes. Only where nothing else will
// do are they made rows first.
func (r *run) feed(n *plan.Aggregate, makeSink func(in aggregate.Input) operator.Sink) error {
	bottom, above := vector.Under(n.Input)
	if w, ok := bottom.(*plan.Window); ok {
		return r.window(w, above, func(s *source) operator.Sink {
			return makeSink(s.input(n))
		})
	}
	if vector.Combines(bottom) {
		return r.combined(bottom, above, func(size int, at func(int) labels.Labels) operator.Sink {
			return makeSink(aggregate.InputOf(n, size, at))
		})
	}
	if inner, ok := bottom.(*plan.Aggregate); ok && inner.Func.Adds() && above.RelabelsOnly() && !r.reuses(inner) {
		a, err := r.accumulate(inner)
		if err != nil {
			return err
		}
		defer r.Free(a, nil)
		order := a.Order()
		at, err := vector.LabelsAfter(r.Query, len(order), func(i int) labels.Labels { return a.Groups.Labels[order[i]] }, above)
		if err != nil {
			return err
		}
		return r.Feed(makeSink(aggregate.InputOf(n, len(order), at)), len(order), func(_, i int, out dense.Row, c *dense.Counts) error {
			c.Points = a.FillRow(order[i], out)
			c.Mapped = c.Points
			return nil
		})
	}
	rows, err := r.node(n.Input)
	if err != nil {
		return err
	}
	defer r.Charge(-operator.RowsBytes(rows))
	at := func(i int) labels.Labels { return rows[i].Labels }
	return r.Feed(makeSink(aggregate.InputOf(n, len(rows), at)), len(rows), func(_, i int, out dense.Row, c *dense.Counts) error {
		out.Put(&rows[i])
		c.Points, c.Mapped = len(rows[i].Values), len(rows[i].Values)
		return nil
	})
}

// parameter evaluates the parameter of n.
func (r *run) parameter(n *plan.Aggregate) (aggregate.Parameter, error) {
	if n.ParamNode == nil {
		return aggregate.Constant(n.Param), nil
	}
	rows, err := r.node(n.ParamNode)
	if err != nil {
		return aggregate.Parameter{}, err
	}
	return aggregate.Varying(rows[0].Values), nil
}
