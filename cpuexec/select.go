package cpuexec

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// selected evaluates an operator that keeps some of its input's series.
func (r *run) selected(n *plan.Aggregate, p parameter) ([]plan.Row, error) {
	type selector interface {
		operator.Sink
		rows() []plan.Row
	}
	var s selector
	none, fails := p.selects(r.Query, n)
	err := r.feed(n, func(in input) operator.Sink {
		switch {
		case none || fails != nil:
			s = nothing{}
		case n.Func.Name == "limit_ratio":
			s = newRatioLimiter(n, p, r.Query, in)
		case n.Func.Name == "limitk":
			s = newCountLimiter(n, p, r.Query, in)
		default:
			s = newRanker(n, p, r.Query, in)
		}
		return s
	})
	if err != nil {
		return nil, err
	}
	if fails != nil {
		return nil, fails // once the input has been evaluated without an error
	}
	rows := s.rows()
	if _, ok := s.(*ranker); ok {
		r.Free(s, rows)
	} else {
		r.Free(s, nil) // their rows are counted as they are collected
	}
	return rows, nil
}

// nothing is the sink that keeps no series.
type nothing struct{}

func (nothing) Consume(*operator.Query, *operator.Batch) {}

func (nothing) rows() []plan.Row { return nil }

// members assigns series to the groups of an operator that keeps series.
type members struct {
	node   *plan.Aggregate
	labels func(i int) labels.Labels
	of     []int32 // group of each series
	size   []int32 // series in each group
	first  []int32 // the first series with a value of each group, -1 for none
	steps  int
}

func newMembers(n *plan.Aggregate, q *operator.Query, in input) members {
	g := in.groups(n)
	m := members{node: n, labels: in.labels, of: g.of, size: make([]int32, len(g.labels)), first: newFirst(len(g.labels)), steps: q.Grid.Steps}
	for _, k := range g.of {
		m.size[k]++
	}
	return m
}

func (m *members) Owner() plan.Node { return m.node }

// instant reports whether the order of the result is that of Prometheus's heaps.
// Over several steps Prometheus's engine forgets it.
func (m *members) instant() bool { return m.steps == 1 }

// atStep is atMost at a step at which k is less than its largest value, which room
// was made for.
func atStep(k float64, room int) int { return min(max(int(k), 0), room) }

// atMost is the number of series that an operator with parameter k keeps of a
// group of the given size.
func atMost(k float64, size int32) int {
	return int(math.Min(math.Trunc(k), float64(size)))
}
