package aggregate

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
)

// New evaluates the aggregation n. param is its parameter where that is no constant, and nil
// otherwise.
func New(q *operator.Query, n *plan.Aggregate, param, input operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) {
		if n.Func.Adds() {
			rows, _, err := Added(q, n, input, false)
			return rows, err
		}
		if n.Label != "" {
			return countValues(q, n, input)
		}
		p, err := parameterOf(q, n, param)
		if err != nil {
			return nil, err
		}
		// Prometheus's engine holds the parameter's samples meanwhile.
		q.Held += q.Grid.Steps
		defer func() { q.Held -= q.Grid.Steps }()
		if q.Matrix.Peak = max(q.Matrix.Peak, q.Held); !q.MayHold(q.Held) {
			return nil, promql.ErrTooManySamples("query execution")
		}
		if n.Func.Keeps {
			return selected(q, n, p, input)
		}
		return quantiles(q, n, p, input)
	}}
}

// parameterOf evaluates the parameter of n.
func parameterOf(q *operator.Query, n *plan.Aggregate, param operator.Operator) (Parameter, error) {
	if param == nil {
		return newParameter(slices.Repeat([]float64{n.Param}, q.Grid.Steps)), nil
	}
	rows, err := operator.Rows(param)
	if err != nil {
		return Parameter{}, err
	}
	return newParameter(rows[0].Values), nil
}

// Added evaluates an aggregation that adds value to value. With ordered, first lists for each value of the
// rows the first series of the group that had one.
func Added(q *operator.Query, n *plan.Aggregate, input operator.Operator, ordered bool) (rows []plan.Row, first [][]int32, err error) {
	var a *Adder
	err = operator.Drive(input, func(in *operator.Series) operator.Sink {
		a = NewAdder(n, q, in, ordered)
		return a
	})
	if err != nil {
		return nil, nil, err
	}
	rows = a.Rows()
	q.Free(a, rows)
	if err = q.Done(); err == nil && ordered { // else there may be more rows
		first = a.FirstSeries(rows)
	}
	return rows, first, err
}

// selected evaluates an operator that keeps some of its input's series.
func selected(q *operator.Query, n *plan.Aggregate, p Parameter, input operator.Operator) ([]plan.Row, error) {
	var s Selector = Nothing{}
	var notes []error
	none, fails := Of(n.Func).check(&p, n, func(note error) { notes = append(notes, note) })
	err := operator.Drive(input, func(in *operator.Series) operator.Sink {
		if !none && fails == nil {
			s = Of(n.Func).selector(n, p, q, in)
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	if fails != nil {
		return nil, fails // once the input has been evaluated without an error
	}
	for _, note := range notes { // of equal ones, the last one's position counts
		q.Note(note)
	}
	return s.Rows(q), nil
}

// quantiles evaluates the quantile operator.
func quantiles(q *operator.Query, n *plan.Aggregate, p Parameter, input operator.Operator) ([]plan.Row, error) {
	var sink *Quantiler
	err := operator.Drive(input, func(in *operator.Series) operator.Sink {
		sink = &Quantiler{NewAdder(n, q, in, false), operator.Collector{Labels: in.Labels}}
		return sink
	})
	if err != nil {
		return nil, err
	}
	if sink.offloads {
		rows := sink.Rows()
		q.Free(sink, rows)
		return rows, nil
	}
	defer q.Charge(-operator.RowsBytes(sink.in.Rows))
	return quantilesOf(q, n, p, sink.in.Rows, sink.rowGroups())
}

// Selector is the sink of an operator that keeps some of its input's series.
type Selector interface {
	operator.Sink
	// Rows returns the series that are kept at some step: in the order of the input, or at a
	// single step group by group in the order of Prometheus's heaps. The memory of the sink is
	// counted no longer.
	Rows(q *operator.Query) []plan.Row
}

// Nothing is the sink that keeps no series.
type Nothing struct{}

func (Nothing) Consume(*operator.Query, *operator.Batch) {}

func (Nothing) Rows(*operator.Query) []plan.Row { return nil }

// Offloadable is a sink whose results an accelerator may compute.
type Offloadable interface {
	operator.Sink
	operator.Bounded
	Layout() Layout
	Offload(offloads bool) // says that an accelerator computes the results, or not after all
	// Offloaded puts them in; has says which series have a value.
	Offloaded(x *offload.Results, has []bool)
}

var (
	_ Offloadable = (*Adder)(nil)
	_ Offloadable = (*Quantiler)(nil)
	_ Offloadable = (*ranker)(nil)

	_ operator.Bounded   = (*limiter)(nil)
	_ operator.GroupSink = (*Adder)(nil)
)

// Layout is what an accelerator has to know of a sink.
type Layout struct {
	Node    *plan.Aggregate
	GroupOf []int32 // the group of each series
	Groups  int
	Rooms   []int // of topk and bottomk, how many series each group keeps at a step
}

// atStep is atMost at a step at which k is less than its largest value, which capacity
// was made for.
func atStep(k float64, capacity int) int { return min(max(int(k), 0), capacity) }

// atMost is the number of series that an operator with parameter k keeps of a
// group of the given size.
func atMost(k float64, size int32) int { return int(min(k, float64(size))) }

// Parameter is the parameter of an aggregation.
type Parameter struct {
	values []float64 // by step
	// low and high are the least and the largest value and nan says that one is NaN, all
	// as Prometheus's engine finds them.
	low, high float64
	nan       bool
}

func newParameter(values []float64) Parameter {
	p := Parameter{values: values, low: math.MaxFloat64, high: -math.MaxFloat64}
	for _, v := range values {
		p.low, p.high = math.Min(p.low, v), math.Max(p.high, v)
		p.nan = p.nan || math.IsNaN(v)
	}
	return p
}

// mostSeries is the number of series from which on Prometheus's engine refuses to keep
// them: a little less than the largest int64, which is no float.
const mostSeries = 1<<63 - 1<<10

// checkCount is check for a number of series.
func (p *Parameter) checkCount(*plan.Aggregate, func(error)) (none bool, err error) {
	switch {
	case p.high < 1:
		return true, nil
	case p.nan:
		return false, refused("Parameter value is NaN")
	case p.low <= math.MinInt64:
		return false, refused("Scalar value %v underflows int64", p.low)
	case p.high >= mostSeries:
		return false, refused("Scalar value %v overflows int64", p.high)
	}
	return false, nil
}

// checkRatio is check for a share of the series.
func (p *Parameter) checkRatio(n *plan.Aggregate, note func(error)) (none bool, err error) {
	switch {
	case p.high == 0 && p.low == 0:
		return true, nil
	case p.nan:
		return false, refused("Ratio value is NaN")
	}
	if p.high > 1 {
		note(annotations.NewInvalidRatioWarning(p.high, 1, n.ParamPos))
	}
	if p.low < -1 {
		note(annotations.NewInvalidRatioWarning(p.low, -1, n.ParamPos))
	}
	return false, nil
}

// refused is an error in Prometheus's words, some of which begin with a capital.
func refused(format string, args ...any) error { return fmt.Errorf(format, args...) }
