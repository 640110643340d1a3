package aggregate

import (
	"cmp"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/operator"
)

// unequal is how much more than its share, in percent, a core may get for its groups
// to be left to it.
const unequal = 25

// shared returns the series from the given one on by group, the groups with the most
// series first; and nil if so many workers, each of which takes the next group when it
// is done with one, would not be done at about the same time.
func shared(g operator.Groups, from, workers int) [][]int32 {
	sizes := make([]int, len(g.Labels))
	for _, k := range g.Of[from:] {
		sizes[k]++
	}
	members, memory := make([][]int32, len(sizes)), make([]int32, len(g.Of)-from)
	for k, n := range sizes {
		members[k], memory = memory[:0:n], memory[n:]
	}
	for i, k := range g.Of[from:] {
		members[k] = append(members[k], int32(from+i))
	}
	slices.SortStableFunc(members, func(x, y []int32) int { return cmp.Compare(len(y), len(x)) })
	loads := make([]int, workers)
	for _, m := range members {
		least := 0
		for k := range loads {
			if loads[k] < loads[least] {
				least = k
			}
		}
		loads[least] += len(m)
	}
	if share := (len(g.Of) - from + workers - 1) / workers; slices.Max(loads) > share+share*unequal/100 {
		return nil
	}
	return members
}
