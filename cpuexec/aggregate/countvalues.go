package aggregate

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
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
		for _, s := range counters[k].series {
			out = append(out, s.row)
		}
	}
	return out, q.CheckSteps(n, 0, points, operator.Points(out), len(in))
}

// valueCounter counts the values of a group, some steps at a time, for which it goes over each row.
// Only what is counted takes memory, never values times steps.
type valueCounter struct {
	rows   []dense.RunCursor
	series []countedValue   // of the result
	index  map[uint64]int32 // of them, by Prometheus's grouping key
	known  map[uint64]int32 // the same by the bits of the value
	counts []counts         // of the series that were counted at these steps
	cells  []cell           // of all counts, as many of each as there are steps
	steps  int              // at most 64
	grown  int64            // bytes of the result since the budget was told
	b      *labels.Builder
	buf    []byte
}

// countedValue is a series of the result.
type countedValue struct {
	row    plan.Row
	first  uint64 // its first step, and of that the first row with the value
	counts int    // where its counts are at these steps, counted from 1; 0 for none
}

// counts are a series, and a bitmap of the steps at which it was counted.
type counts struct {
	series int32
	at     uint64
}

// cell is the first row that a series was counted for at a step, and how many there are.
type cell struct{ row, n int32 }

// evaluate counts all values, and reports whether the query goes on.
func (c *valueCounter) evaluate(q *operator.Query, n *plan.Aggregate) bool {
	c.index, c.known, c.b = map[uint64]int32{}, map[uint64]int32{}, labels.NewBuilder(labels.EmptyLabels())
	// Every value may make a series, so the context is asked often.
	c.steps = max(1, min(64, 1<<14/len(c.rows)))
	for lo := 0; lo < q.Grid.Steps; lo += c.steps {
		for i := range c.rows {
			c.rows[i].Each(int32(lo), int32(lo+c.steps), func(step int32, values []float64) {
				c.count(n, int32(i), int(step)-lo, values)
			})
			if c.grown > chargeEvery && !c.charge(q) {
				return false
			}
		}
		c.flush(int32(lo))
		if !c.charge(q) {
			return false
		}
	}
	slices.SortFunc(c.series, func(x, y countedValue) int { return cmp.Compare(x.first, y.first) })
	return true
}

// chargeEvery is after how many bytes the result is charged at the latest.
const chargeEvery = 1 << 20

// charge tells the budget what the result has grown by, and reports whether the query goes on.
func (c *valueCounter) charge(q *operator.Query) bool {
	q.Charge(c.grown)
	c.grown = 0
	return q.Done() == nil
}

// count counts values of a row at steps one after the other, of which the first is given.
func (c *valueCounter) count(n *plan.Aggregate, row int32, step int, values []float64) {
	var last uint64
	var at *uint64
	var cells []cell
	for k, v := range values {
		if of := math.Float64bits(v); at == nil || of != last {
			i := c.countsOf(n, c.rows[row].Row.Labels, v)
			at, cells, last = &c.counts[i].at, c.cellsOf(i)[step:][:len(values)], of
		}
		if bit := uint64(1) << (k + step); *at&bit == 0 {
			*at |= bit
			cells[k] = cell{row: row}
		}
		cells[k].n++
	}
}

// cellsOf are the cells of the counts with a number.
func (c *valueCounter) cellsOf(i int) []cell { return c.cells[i*c.steps:][:c.steps] }

// countsOf is the number of the counts of the series that a value counts for.
func (c *valueCounter) countsOf(n *plan.Aggregate, l labels.Labels, v float64) int {
	if v != v {
		v = math.NaN() // all are written alike
	}
	of := math.Float64bits(v)
	s, ok := c.known[of]
	if !ok {
		s = c.seriesOf(n, l, v)
		c.known[of] = s
	}
	x := &c.series[s]
	if x.counts == 0 {
		c.counts = append(c.counts, counts{series: s})
		x.counts = len(c.counts)
		c.cells = slices.Grow(c.cells, c.steps)[:x.counts*c.steps] // what is in it counts where at has a bit
	}
	return x.counts - 1
}

// flush puts what was counted at steps from the first one on into the result.
func (c *valueCounter) flush(first int32) {
	for i, counts := range c.counts {
		x, cells := &c.series[counts.series], c.cellsOf(i)
		x.counts = 0
		for at := counts.at; at != 0; at &= at - 1 {
			k := bits.TrailingZeros64(at)
			step := first + int32(k)
			if len(x.row.Values) == 0 {
				x.first = uint64(step)<<32 | uint64(cells[k].row)
			}
			x.row.Values = append(x.row.Values, float64(cells[k].n))
			x.row.Runs = plan.AppendRun(x.row.Runs, plan.Run{First: step, Len: 1})
			c.grown += 8
		}
	}
	c.counts, c.cells = c.counts[:0], c.cells[:0]
}

// seriesOf finds or makes the series of the result that a value counts for.
func (c *valueCounter) seriesOf(n *plan.Aggregate, l labels.Labels, v float64) int32 {
	l = withLabel(c.b, l, n.Label, strconv.FormatFloat(v, 'f', -1, 64))
	var key uint64
	key, c.buf = operator.GroupingKey(n, l, c.buf)
	s, ok := c.index[key]
	if !ok {
		s = int32(len(c.series))
		c.index[key] = s
		c.series = append(c.series, countedValue{row: plan.Row{Labels: operator.GroupLabels(n, new(labels.ScratchBuilder), l)}})
		c.grown += operator.RowBytes(0) + int64(c.series[s].row.Labels.ByteSize())
	}
	return s
}

// withLabel returns labels with a value of one of them.
func withLabel(b *labels.Builder, l labels.Labels, name, value string) labels.Labels {
	b.Reset(l)
	b.Set(name, value)
	return b.Labels()
}
