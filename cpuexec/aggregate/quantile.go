package aggregate

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var _ = define(&Function{
	AggregateFunc: plan.AggregateFunc{Name: "quantile", Param: true},
	Repeats:       true,
	Ordinary:      exact.IsQuantile,
	Outside:       "a quantile outside 0 to 1",
	GPU:           abi.Policy{Kernel: abi.ByQuantile, Name: "Quantile"},
})

// quantilesOf evaluates the quantile operator: for every group and step, the
// values of the group's series, sorted, interpolated at the parameter's rank.
// Steps are split over the cores, 64 at a time. g are the groups of the rows.
func quantilesOf(q *operator.Query, n *plan.Aggregate, p Parameter, in []plan.Row, g operator.Groups) ([]plan.Row, error) {
	p.WarnQuantiles(q, n)
	steps := q.Grid.Steps
	if err := q.CheckCells(n, len(g.Labels)*steps); err != nil {
		return nil, err
	}
	members := make([][]int32, len(g.Labels))
	for i, k := range g.Of {
		members[k] = append(members[k], int32(i))
	}
	words := (steps + 63) / 64
	q.Charge(int64(len(g.Labels)) * operator.RowBytes(steps))
	if err := q.Done(); err != nil {
		return nil, err
	}
	vals := make([]float64, len(g.Labels)*steps)
	present := make([]uint64, len(g.Labels)*words)
	parts := min(words, q.WorkersFor(len(in)*steps))
	parallel.While(parts, parts, func(_, part int) bool {
		var lists lists
		cursors := make([]dense.RunCursor, len(in))
		for i := range in {
			cursors[i].Row = &in[i]
		}
		for w := part * words / parts; w < (part+1)*words/parts; w++ {
			if q.Context.Err() != nil {
				return false
			}
			for k, rows := range members {
				lists.reset(len(rows))
				for _, i := range rows {
					lists.gather(&cursors[i], int32(w*64))
				}
				for b := range lists.end {
					if list := lists.of(b); len(list) > 0 {
						vals[k*steps+w*64+b] = exact.Quantile(p.values[w*64+b], list)
						present[k*words+w] |= 1 << b
					}
				}
			}
		}
		return true
	})
	if err := q.Done(); err != nil {
		return nil, err
	}
	out := make([]plan.Row, 0, len(members))
	for k, l := range g.Labels {
		values := dense.Row{Values: vals[k*steps : (k+1)*steps], Present: present[k*words : (k+1)*words]}
		out = append(out, values.Compact(0, l))
	}
	return out, nil
}

// WarnQuantiles says what Prometheus's engine says of quantiles that are none.
func (p *Parameter) WarnQuantiles(q *operator.Query, n *plan.Aggregate) {
	warn := func(v float64) { q.Note(annotations.NewInvalidQuantileWarning(v, n.ParamPos)) }
	if p.nan {
		warn(math.NaN())
	}
	if p.high > 1 {
		warn(p.high)
	}
	if p.low < 0 {
		warn(p.low)
	}
}

// Quantiler is the sink of a quantile over a window. It keeps the rows, unless an
// accelerator computes the quantiles.
type Quantiler struct {
	*Adder
	in operator.Collector
}

func (q *Quantiler) Consume(of *operator.Query, b *operator.Batch) { q.in.Consume(of, b) }

// What is kept is counted as it is collected.
func (q *Quantiler) Allocate() {}

func (q *Quantiler) Size() (n plan.Node, cells int, bytes int64) {
	if q.offloads {
		return q.Adder.Size()
	}
	return q.node, 0, 0
}

// GroupOf returns nil: rows are kept in the order of their series.
func (q *Quantiler) GroupOf() []int32 { return nil }

// rowGroups are the groups of the rows, in the order of their first rows.
func (q *Quantiler) rowGroups() operator.Groups {
	g := operator.Groups{Of: make([]int32, len(q.in.Rows))}
	number := slices.Repeat([]int32{-1}, len(q.groups.Labels)) // of each group, -1 for none
	for i, s := range q.in.Series {
		k := q.groups.Of[s]
		if number[k] < 0 {
			number[k] = int32(len(g.Labels))
			g.Labels = append(g.Labels, q.groups.Labels[k])
		}
		g.Of[i] = number[k]
	}
	return g
}

// lists are the values of a group at each of 64 steps.
type lists struct {
	values []float64
	room   int     // of a list
	end    [64]int // where in values each ends
}

// reset makes the lists empty, with room for most values each. They are not a power of two apart,
// so that the ends of all are in a core's cache at once.
func (l *lists) reset(most int) {
	l.room = (most+7)&^7 + 8
	l.values = slices.Grow(l.values[:0], 64*l.room)[:64*l.room]
	for b := range l.end {
		l.end[b] = b * l.room
	}
}

// of is the list of step b.
func (l *lists) of(b int) []float64 { return l.values[b*l.room : l.end[b]] }

// gather appends the values of a row at the 64 steps from first on.
func (l *lists) gather(in *dense.RunCursor, first int32) {
	in.Each(first, first+64, func(step int32, values []float64) {
		end := l.end[step-first:][:len(values)]
		for i, v := range values {
			l.values[end[i]] = v
			end[i]++
		}
	})
}
