package cpuexec

// This file holds the functions that look at pairs of neighbouring samples.

// countBetween fills out with how many of the given samples, which stand for a
// pair each of themselves and the sample before, have their pair in the window.
//
//	out[k] = number of p in pairs with lo < p < hi
func countBetween(pairs []int32, b *bounds, out row) {
	cur := cursor{row: out}
	defer cur.flush()
	first, next := 0, 0 // pairs not after the window's first sample, and before its end
	for k, lo := range b.lo {
		hi := b.hi[k]
		if lo == hi {
			continue
		}
		for next < len(pairs) && pairs[next] < hi {
			next++
		}
		for first < next && pairs[first] <= lo {
			first++
		}
		cur.set(k, float64(next-first))
	}
}

// findChanges appends the samples that differ from the one before, as indices.
// NaN is no different from NaN.
func findChanges(vs []float64, changes []int32) []int32 {
	for i := 1; i < len(vs); i++ {
		if a, b := vs[i-1], vs[i]; a != b && (a == a || b == b) {
			changes = append(changes, int32(i))
		}
	}
	return changes
}

// lastPairs fills out with the difference of the last two samples of each window;
// as the rate of a counter it is per second, and after a reset the last sample
// itself. It returns the number of steps with a value.
func lastPairs(ts []int64, vs []float64, b *bounds, rate bool, out row) (points int) {
	cur := cursor{row: out}
	defer cur.flush()
	for k, hi := range b.hi {
		if hi-b.lo[k] < 2 {
			continue
		}
		v := vs[hi-1]
		if last := vs[hi-2]; !rate || !(v < last) {
			v -= last
		}
		if rate {
			v /= float64(ts[hi-1]-ts[hi-2]) / 1000
		}
		cur.set(k, v)
		points++
	}
	return points
}
