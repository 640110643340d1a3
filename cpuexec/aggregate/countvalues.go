package aggregate

import (
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

var _ = define(&Function{
	AggregateFunc: plan.AggregateFunc{Name: "count_values", Labels: true},
	NoGPU:         "it makes labels of values",
})

// valueCounter evaluates count_values: a series for every group and value, with
// the value in a label, that counts the group's series with that value. Only
// what is counted takes memory, never groups times values times steps.
type valueCounter struct {
	node  *plan.Aggregate
	in    []plan.Row
	b     *labels.Builder
	buf   []byte
	index map[uint64]int32     // series of the result, by Prometheus's grouping key
	known map[countedKey]int32 // series of the result, by a shorter way
	of    []int32              // group of each row, whatever its values are
	out   []plan.Row
	last  []int32 // the last step of each series of the result
	grown int64   // bytes of the result since the budget was told
}

type countedKey struct {
	group int32
	bits  uint64
}

// countValues evaluates count_values over rows, step by step.
func countValues(q *operator.Query, n *plan.Aggregate, in []plan.Row) ([]plan.Row, error) {
	c := &valueCounter{node: n, in: in, b: labels.NewBuilder(labels.EmptyLabels()), index: map[uint64]int32{}, known: map[countedKey]int32{}}
	// Rows are in one group if they are so when they have the same value.
	alike := make([]labels.Labels, len(in))
	for i := range alike {
		alike[i] = c.with(i, "0")
	}
	c.of = operator.Group(q.Context, n, len(in), func(i int) labels.Labels { return alike[i] }).Of
	at := make([]dense.RunCursor, len(in))
	for i := range at {
		at[i].Row = &in[i]
	}
	// Every value may make a series, so the context is asked often.
	every := max(1, 1<<14/max(len(in), 1))
	for k := range int32(q.Grid.Steps) {
		if int(k)%every == 0 {
			q.Charge(c.grown)
			c.grown = 0
			if err := q.Done(); err != nil {
				return nil, err
			}
		}
		for i := range at {
			if v := at[i].Next(k, 1); v != nil {
				c.count(i, v[0], k)
			}
		}
	}
	q.Charge(c.grown)
	return c.out, q.CheckSteps(n, 0, operator.Points(in), operator.Points(c.out), len(in))
}

// count counts a value of row i.
func (c *valueCounter) count(i int, v float64, step int32) {
	bits := math.Float64bits(v)
	if math.IsNaN(v) {
		bits = math.Float64bits(math.NaN()) // all are written alike
	}
	s := c.series(i, bits, v)
	out := &c.out[s]
	if n := len(out.Values); n > 0 && c.last[s] == step {
		out.Values[n-1]++
		return
	}
	out.Values = append(out.Values, 1)
	c.grown += 8
	out.Runs = dense.AppendRun(out.Runs, plan.Run{First: step, Len: 1})
	c.last[s] = step
}

// series finds or makes the series of the result that value v of row i counts for.
func (c *valueCounter) series(i int, bits uint64, v float64) int32 {
	known := countedKey{c.of[i], bits}
	s, ok := c.known[known]
	if ok {
		return s
	}
	l := c.with(i, strconv.FormatFloat(v, 'f', -1, 64))
	var key uint64
	key, c.buf = operator.GroupingKey(c.node, l, c.buf)
	if s, ok = c.index[key]; !ok {
		s = int32(len(c.out))
		c.index[key] = s
		c.out = append(c.out, plan.Row{Labels: operator.GroupLabels(c.node, c.b, l)})
		c.last = append(c.last, -1)
		c.grown += operator.RowBytes(0)
	}
	c.known[known] = s
	return s
}

// with returns the labels of row i with a value in the label for values.
func (c *valueCounter) with(i int, value string) labels.Labels {
	c.b.Reset(c.in[i].Labels)
	c.b.Set(c.node.Label, value)
	return c.b.Labels()
}
