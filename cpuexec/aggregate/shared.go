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
// series first, or nearly so; and nil if so many workers, each of which takes the next group when it
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
	moveApart(members)
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

// alike is the least number of series, in percent of the most, of groups that are in any order.
const alike = 75

// moveApart moves groups that lie side by side, the largest first, away from each other, among those
// of about as many series. Neighbours are often of the same targets, such as the buckets of one job's
// histograms, whose series have the same times: workers that have one each would come to the same
// frame at the same time, one target after the other, and wait for whoever makes it.
func moveApart(members [][]int32) {
	for len(members) > 0 {
		n := 1
		for n < len(members) && len(members[n])*100 >= len(members[0])*alike {
			n++
		}
		step := n * 382 / 1000 // the golden section, whose multiples are far from each other
		for ; step > 1 && gcd(step, n) > 1; step-- {
		}
		if old := slices.Clone(members[:n]); step > 1 {
			for k := range old {
				members[k] = old[k*step%n]
			}
		}
		members = members[n:]
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
