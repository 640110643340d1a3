package window

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file holds the functions that look at pairs of neighbouring samples.

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "irate", StartTime: true},
		Plain:      func(w *Window) (float64, bool) { return w.lastPair(counterLast) },
		Fast:       func(s *Evaluator) (int, bool) { return s.lastPairs(counterLast), true },
		Started:    (*Evaluator).startedRates,
		Reads:      Ends,
		Sees:       LastTwo,
		GPU:        abi.Policy{Kernel: abi.ByPairs, Name: "LastRate"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "idelta"},
		Plain:      func(w *Window) (float64, bool) { return w.lastPair(gaugeLast) },
		Fast:       func(s *Evaluator) (int, bool) { return s.lastPairs(gaugeLast), true },
		Reads:      Ends,
		Sees:       LastTwo,
		GPU:        abi.Policy{Kernel: abi.ByPairs, Name: "LastDifference"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "changes", Modifiers: []plan.Modifier{plan.Anchored}},
		Plain:      func(w *Window) (float64, bool) { return w.countPairs(differs), true },
		Fast: func(s *Evaluator) (int, bool) {
			countBetween(s.changes(), &s.bounds, s.out)
			return s.fr.counts.Points, true
		},
		Extended: func(s *Evaluator, e *edges) { countBetween(s.changes(), e.bounds(s.fr), s.out) },
		Sees:     Changing,
		GPU:      abi.Policy{Kernel: abi.ByPairs, Name: "Changes"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "resets", StartTime: true, Modifiers: []plan.Modifier{plan.Anchored}},
		Plain:      func(w *Window) (float64, bool) { return w.countPairs(func(a, b float64) bool { return b < a }), true },
		Fast: func(s *Evaluator) (int, bool) {
			countBetween(s.resets(), &s.bounds, s.out)
			return s.fr.counts.Points, true
		},
		Started: func(s *Evaluator) int {
			countBetween(s.allResets(), &s.bounds, s.out)
			return s.fr.counts.Points
		},
		Extended: func(s *Evaluator, e *edges) { countBetween(s.allResets(), e.bounds(s.fr), s.out) },
		Reads:    Ends,
		Sees:     Falling,
		GPU:      abi.Policy{Kernel: abi.ByPairs, Name: "Resets"},
	})
)

// lastPair is the difference of the last two samples.
func (w *Window) lastPair(kind difference) (float64, bool) {
	n := len(w.Values)
	if n < 2 {
		return 0, false
	}
	return lastPair(kind, w.Values[n-2], w.Values[n-1], float64(w.Times[n-1]-w.Times[n-2])/1000), true
}

// countPairs is the number of neighbouring samples for which something holds.
func (w *Window) countPairs(holds func(before, v float64) bool) (n float64) {
	for i, v := range w.Values[1:] {
		if holds(w.Values[i], v) {
			n++
		}
	}
	return n
}

// differs reports whether a value is another. NaN is no different from NaN.
func differs(a, b float64) bool { return a != b && (a == a || b == b) }

// changes returns the samples that differ from the one before, as indices. The memory is the
// evaluator's.
func (s *Evaluator) changes() []int32 {
	s.indices = findChanges(s.in.Values, s.indices[:0])
	return s.indices
}

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
func findChanges(vs []float64, changes []int32) []int32 {
	for i := 1; i < len(vs); i++ {
		if differs(vs[i-1], vs[i]) {
			changes = append(changes, int32(i))
		}
	}
	return changes
}

// lastPairs fills out with the difference of the last two samples of each window;
// as the rate of a counter it is per second, and after a reset the last sample
// itself. It returns the number of steps with a value.
func (s *Evaluator) lastPairs(kind difference) (points int) {
	fr, in, split, out := s.fr, &s.in, s.split, s.out
	e := fr.extrapolation(kind)
	copy(out.Present, e.pairs)
	for k := fr.from; k < split; {
		if kind == counterLast {
			end := dense.End(e.pairs, k, split)
			k += packedPairs(out.Values[k:end], &in.Packed, fr.hi[k:end], e.factor[k:end])
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
