package aggregate

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/operator"
)

// noteFirst notes which series of a batch is the first with a value of its
// group; first has -1 for groups that have none yet.
func noteFirst(first, of []int32, b *operator.Batch) {
	for i := range b.N {
		if g := of[b.Lo+i]; b.Counts[i].Mapped > 0 && first[g] < 0 {
			first[g] = int32(b.Lo + i)
		}
	}
}

// newFirst is the list that noteFirst fills in, for so many groups.
func newFirst(groups int) []int32 {
	first := make([]int32, groups)
	for g := range first {
		first[g] = -1
	}
	return first
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

// noteSeries notes the first series of each group that has a value.
func noteSeries(first, of []int32, has []bool) {
	for i, left := 0, len(first); i < len(has) && left > 0; i++ {
		if g := of[i]; has[i] && first[g] < 0 {
			first[g] = int32(i)
			left--
		}
	}
}
