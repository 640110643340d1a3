package aggregate

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// Selector is the sink of an operator that keeps some of its input's series.
type Selector interface {
	operator.Sink
	// Rows returns the series that are kept at some step: in the order of the input, or at a
	// single step group by group in the order of Prometheus's heaps. The memory of the sink is
	// counted no longer.
	Rows(q *operator.Query) []plan.Row
}

// newSelector makes the sink of n.
func newSelector(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) Selector {
	return Of(n.Func).selector(n, p, q, in)
}

// Nothing is the sink that keeps no series.
type Nothing struct{}

func (Nothing) Consume(*operator.Query, *operator.Batch) {}

func (Nothing) Rows(*operator.Query) []plan.Row { return nil }

// members assigns series to the groups of an operator that keeps series.
type members struct {
	node   *plan.Aggregate
	labels func(i int) labels.Labels
	of     []int32 // group of each series
	size   []int32 // series in each group
	first  []int32 // the first series with a value of each group, -1 for none
	steps  int
}

func newMembers(n *plan.Aggregate, q *operator.Query, in *operator.Series) members {
	g := in.GroupsOf(q.Context, n)
	m := members{node: n, labels: in.Labels, of: g.Of, size: make([]int32, len(g.Labels)), first: newFirst(len(g.Labels)), steps: q.Grid.Steps}
	for _, k := range g.Of {
		m.size[k]++
	}
	return m
}

func (m *members) Owner() plan.Node { return m.node }

// instant reports whether the order of the result is that of Prometheus's heaps.
// Over several steps Prometheus's engine forgets it.
func (m *members) instant() bool { return m.steps == 1 }

// atStep is atMost at a step at which k is less than its largest value, which capacity
// was made for.
func atStep(k float64, capacity int) int { return min(max(int(k), 0), capacity) }

// atMost is the number of series that an operator with parameter k keeps of a
// group of the given size.
func atMost(k float64, size int32) int {
	return int(math.Min(math.Trunc(k), float64(size)))
}
