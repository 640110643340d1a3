package vector

import (
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// NewAbsent evaluates absent and absent_over_time: a row with 1 at the steps at
// which no series of the input has a value, or no row.
func NewAbsent(q *operator.Query, n *plan.Absent, input operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) {
		p := &anyValue{seen: make([]uint64, (q.Grid.Steps+63)/64)}
		if err := operator.Drive(input, func(*operator.Series) operator.Sink { return p }); err != nil {
			return nil, err
		}
		return p.absence(q, n)
	}}
}

// anyValue is the sink that notes at which steps there is any value.
type anyValue struct {
	seen           []uint64 // bitmap
	points, series int      // series that have a value
}

// Consume implements operator.Sink.
func (p *anyValue) Consume(_ *operator.Query, b *operator.Batch) {
	for i := range b.N {
		if b.Counts[i].Mapped == 0 {
			continue
		}
		p.points += b.Counts[i].Mapped
		p.series++
		for w, bits := range b.Row(i).Present {
			p.seen[w] |= bits
		}
	}
}

// absence is the result of n: a row with 1 at the steps at which there was no value, or no
// row. It ends the sink.
func (p *anyValue) absence(q *operator.Query, n *plan.Absent) ([]plan.Row, error) {
	steps := q.Grid.Steps
	out := dense.Row{Values: make([]float64, steps), Present: p.seen}
	missing := 0
	for w := range p.seen {
		p.seen[w] = ^p.seen[w]
		if over := (w+1)*64 - steps; over > 0 {
			p.seen[w] &= ^uint64(0) >> over
		}
		missing += bits.OnesCount64(p.seen[w])
	}
	for k := range out.Values {
		out.Values[k] = 1
	}
	var rows []plan.Row
	if missing > 0 {
		rows = []plan.Row{out.Compact(missing, n.Labels)}
	}
	if n.OverTime {
		// Prometheus's engine does not count the result.
		return rows, nil
	}
	return rows, q.CheckSteps(n, 0, p.points, missing, p.series)
}
