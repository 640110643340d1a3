package window

import (
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// This file holds the functions that look at pairs of neighbouring samples.

// countBetween fills out with how many of the given samples, which stand for a
// pair each of themselves and the sample before, have their pair in the window.
//
//	out[k] = number of p in pairs with lo < p < hi
func countBetween(pairs []int32, b *bounds, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
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
		cur.Set(k, float64(next-first))
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
// itself. Steps before split have packed samples. It returns the number of steps
// with a value.
func lastPairs(fr *frame, in *column.Samples, split int, kind difference, out dense.Row) (points int) {
	e := fr.extrapolation(kind)
	copy(out.Present, e.pairs)
	all := e.points == fr.to-fr.from // of these steps have a value
	for k := fr.from; k < split; {
		if kind == counterLast && all {
			k += packedPairs(out.Values[k:split], &in.Packed, fr.hi[k:split], e.factor[k:split])
		}
		for end := min(k+exact.Lanes, split); k < end; k++ {
			if hi := fr.hi[k]; hi-fr.lo[k] >= 2 {
				out.Values[k] = lastPair(kind, in.Value(hi-2), in.Value(hi-1), e.factor[k])
			}
		}
	}
	for k := split; k < fr.to; k++ {
		if hi := fr.hi[k]; hi-fr.lo[k] >= 2 {
			out.Values[k] = lastPair(kind, in.Values[hi-2], in.Values[hi-1], e.factor[k])
		}
	}
	return e.points
}

func lastPair(kind difference, last, v, seconds float64) float64 {
	switch {
	case kind == gaugeLast:
		return v - last
	case v < last:
		return v / seconds
	default:
		return float64(v-last) / seconds
	}
}

// mergeIndices merges two lists of indices, each in order, into out.
func mergeIndices(a, b, out []int32) []int32 {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			a = a[1:]
		}
	}
	return out
}
