package aggregate

import (
	"math"
	"math/bits"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

var _ = define(&Function{
	AggregateFunc: plan.AggregateFunc{Name: "count_values", Labels: true},
	NoGPU:         "it makes labels of values",
})

// countValues evaluates count_values: a series for every group and value, with the value in a
// label, that counts the group's series with that value.
func countValues(q *operator.Query, n *plan.Aggregate, input operator.Operator) ([]plan.Row, error) {
	in, err := operator.Rows(input)
	if err != nil {
		return nil, err
	}
	defer q.Charge(-operator.RowsBytes(in))
	names := int64(len(in) * len(n.Label))
	defer q.Charge(-names)
	if q.Charge(names); q.Done() != nil {
		return nil, q.Done()
	}
	// Rows are in one group if they are so when they have the same value.
	alike := make([]labels.Labels, len(in))
	b := labels.NewBuilder(labels.EmptyLabels())
	for i := range alike {
		alike[i] = withLabel(b, in[i].Labels, n.Label, "0")
	}
	groups := operator.Group(q.Context, n, len(in), func(i int) labels.Labels { return alike[i] })
	counters := make([]valueCounter, len(groups.Labels))
	for i, k := range groups.Of {
		counters[k].rows = append(counters[k].rows, dense.RunCursor{Row: &in[i]})
	}
	points := operator.Points(in)
	parallel.While(q.WorkersFor(points), len(counters), func(_, k int) bool { return counters[k].evaluate(q, n) })
	if err := q.Done(); err != nil {
		return nil, err
	}
	var out []plan.Row
	for k := range counters {
		out = append(out, counters[k].out...)
	}
	return out, q.CheckSteps(n, 0, points, operator.Points(out), len(in))
}

// valueCounter counts the values of a group. Only what is counted takes memory, never values times steps.
type valueCounter struct {
	rows  []dense.RunCursor
	index map[uint64]int32 // series of the result, by Prometheus's grouping key
	known []countedValue   // series of the result by the bits of the value, at a place that hangs on these
	used  int              // places of known
	out   []plan.Row
	last  []int32 // the last step of each series of the result
	grown int64   // bytes of the result since the budget was told
	b     *labels.Builder
	buf   []byte
}

// countedValue is a value and the series of the result that it counts for.
type countedValue struct {
	bits   uint64
	series int32 // counted from 1; 0 where there is none
}

// evaluate counts step by step, and reports whether the query goes on.
func (c *valueCounter) evaluate(q *operator.Query, n *plan.Aggregate) bool {
	c.index, c.known, c.b = map[uint64]int32{}, make([]countedValue, 8), labels.NewBuilder(labels.EmptyLabels())
	// Every value may make a series, so the context is asked often.
	every := max(1, 1<<14/len(c.rows))
	for k := range int32(q.Grid.Steps) {
		if int(k)%every == 0 {
			if !c.charge(q) {
				return false
			}
		}
		for i := range c.rows {
			if v := c.rows[i].Next(k, 1); v != nil {
				c.count(n, c.rows[i].Row.Labels, v[0], k)
			}
			if c.grown > chargeEvery && !c.charge(q) {
				return false
			}
		}
	}
	return c.charge(q)
}

// chargeEvery is after how many bytes the result is charged at the latest.
const chargeEvery = 1 << 20

// charge tells the budget what the result has grown by, and reports whether the query goes on.
func (c *valueCounter) charge(q *operator.Query) bool {
	q.Charge(c.grown)
	c.grown = 0
	return q.Done() == nil
}

// count counts a value of a series with labels l.
func (c *valueCounter) count(n *plan.Aggregate, l labels.Labels, v float64, step int32) {
	of := math.Float64bits(v)
	if v != v {
		of = math.Float64bits(math.NaN()) // all are written alike
	}
	s := c.place(of).series - 1
	if s < 0 {
		s = c.seriesOf(n, l, v)
		c.note(countedValue{of, s + 1})
	}
	out := &c.out[s]
	if c.last[s] == step {
		out.Values[len(out.Values)-1]++
		return
	}
	out.Values = append(out.Values, 1)
	c.grown += 8
	out.Runs = dense.AppendRun(out.Runs, plan.Run{First: step, Len: 1})
	c.last[s] = step
}

// place is where a value is known, or is to be noted.
func (c *valueCounter) place(of uint64) *countedValue {
	high, low := bits.Mul64(of, 0x9e3779b97f4a7c15)
	last := uint64(len(c.known) - 1) // the length is a power of two
	for at := high ^ low; ; at++ {
		if x := &c.known[at&last]; x.bits == of || x.series == 0 {
			return x
		}
	}
}

// note notes a value that is not known.
func (c *valueCounter) note(x countedValue) {
	if c.used++; 2*c.used > len(c.known) {
		before := c.known
		c.known = make([]countedValue, 2*len(before))
		for _, x := range before {
			if x.series > 0 {
				*c.place(x.bits) = x
			}
		}
	}
	*c.place(x.bits) = x
}

// seriesOf finds or makes the series of the result that a value counts for.
func (c *valueCounter) seriesOf(n *plan.Aggregate, l labels.Labels, v float64) int32 {
	l = withLabel(c.b, l, n.Label, strconv.FormatFloat(v, 'f', -1, 64))
	var key uint64
	key, c.buf = operator.GroupingKey(n, l, c.buf)
	s, ok := c.index[key]
	if !ok {
		s = int32(len(c.out))
		c.index[key] = s
		c.out = append(c.out, plan.Row{Labels: operator.GroupLabels(n, c.b, l)})
		c.last = append(c.last, -1)
		c.grown += operator.RowBytes(0) + int64(c.out[s].Labels.ByteSize())
	}
	return s
}

// withLabel returns labels with a value of one of them.
func withLabel(b *labels.Builder, l labels.Labels, name, value string) labels.Labels {
	b.Reset(l)
	b.Set(name, value)
	return b.Labels()
}
