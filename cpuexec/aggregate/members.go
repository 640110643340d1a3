package aggregate

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// members assigns series to the groups of an aggregation.
type members struct {
	node   *plan.Aggregate
	labels func(i int) labels.Labels
	groups operator.Groups
	first  []int32 // the first series with a value of each group, -1 for none
	steps  int
}

func newMembers(n *plan.Aggregate, q *operator.Query, in *operator.Series) members {
	var g operator.Groups
	if in.Groups != nil {
		g = in.Groups(q.Context, n)
	} else {
		g = operator.Group(q.Context, n, in.N, in.Labels)
	}
	return members{node: n, labels: in.Labels, groups: g, first: slices.Repeat([]int32{-1}, len(g.Labels)), steps: q.Grid.Steps}
}

// Layout implements Offloadable.
func (m *members) Layout() Layout {
	return Layout{Node: m.node, GroupOf: m.groups.Of, Groups: len(m.first)}
}

// noteFirst notes which series of a batch is the first with a value of its group.
func (m *members) noteFirst(b *operator.Batch) {
	for i := range b.N {
		if g := m.groups.Of[b.Lo+i]; b.Counts[i].Mapped > 0 && m.first[g] < 0 {
			m.first[g] = int32(b.Lo + i)
		}
	}
}

// noteSeries notes the first series of each group that has a value.
func (m *members) noteSeries(has []bool) {
	for i, left := 0, len(m.first); i < len(has) && left > 0; i++ {
		if g := m.groups.Of[i]; has[i] && m.first[g] < 0 {
			m.first[g] = int32(i)
			left--
		}
	}
}

// byFirst lists the groups that have a value in the order in which their first
// series came, which is that of Prometheus's engine.
func byFirst(first []int32) []int {
	order := make([]int, 0, len(first))
	for g, f := range first {
		if f >= 0 {
			order = append(order, g)
		}
	}
	slices.SortFunc(order, func(x, y int) int { return int(first[x] - first[y]) })
	return order
}

// instant reports whether the order of the result is that of Prometheus's heaps.
// Over several steps Prometheus's engine forgets it.
func (m *members) instant() bool { return m.steps == 1 }
