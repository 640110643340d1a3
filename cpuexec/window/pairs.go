package window

import (
	"math"
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
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
			s.changes(&s.bounds)
			return s.fr.Counts.Points, true
		},
		Extended: func(s *Evaluator, e *frame.Edges) { s.changes(e.Bounds(s.fr)) },
		Reads:    Integers,
		Sees:     Changing,
		GPU:      abi.Policy{Kernel: abi.ByPairs, Name: "Changes"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "resets", StartTime: true, Modifiers: []plan.Modifier{plan.Anchored}},
		Plain:      func(w *Window) (float64, bool) { return w.countPairs(func(a, b float64) bool { return b < a }), true },
		Fast: func(s *Evaluator) (int, bool) {
			countBetween(s.resets(), &s.bounds, s.out)
			return s.fr.Counts.Points, true
		},
		Started: func(s *Evaluator) int {
			countBetween(s.allResets(), &s.bounds, s.out)
			return s.fr.Counts.Points
		},
		Extended: func(s *Evaluator, e *frame.Edges) { countBetween(s.allResets(), e.Bounds(s.fr), s.out) },
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

// changes fills out with how many samples of each window differ from the one before, which is in it,
// too: the difference of how many do up to its ends. Bit i of a bitmap says that sample i+1 differs.
func (s *Evaluator) changes(b *frame.Bounds) {
	units, n := s.unitsOf(s.in.Packed, s.in.Values, int(b.End())), int32(0)
	all := len(units)
	s.squares, s.indices = s.squares[:0], s.indices[:0]
	if units == nil {
		all = len(s.values())
		s.squares = exact.Differ(s.in.Values, s.squares)
	}
	for i := 64 * len(s.squares); i < all; i += 64 {
		end, word := min(i+64, all-1), uint64(0)
		if units != nil {
			word = unitsDiffer(units[i:end], units[i+1:end+1])
		} else {
			word = valuesDiffer(s.in.Values[i:end], s.in.Values[i+1:end+1])
		}
		s.squares = append(s.squares, word)
	}
	for _, word := range s.squares {
		s.indices = append(s.indices, n)
		n += int32(bits.OnesCount64(word))
	}
	upTo := func(i int32) int32 {
		return s.indices[i>>6] + int32(bits.OnesCount64(s.squares[i>>6]&(1<<(i&63)-1)))
	}
	cur := dense.Cursor{Row: s.out}
	defer cur.Flush()
	for k, lo := range b.Lo {
		if hi := b.Hi[k]; lo < hi {
			cur.Set(k, float64(upTo(hi-1)-upTo(lo)))
		}
	}
}

// unitsDiffer and valuesDiffer tell which of up to 64 samples differ from those before them.
func unitsDiffer(befores, those []uint32) (word uint64) {
	for i, u := range those[:len(befores)] {
		word |= -uint64(u^befores[i]) >> 63 << (i & 63) // without a branch
	}
	return word
}

func valuesDiffer(befores, those []float64) uint64 {
	word := uint64(1)<<len(befores) - 1
	if numbers := dense.Equal(befores, befores); numbers != word {
		word = numbers | dense.Equal(those, those)
	}
	return word &^ dense.Equal(befores, those)
}

// countBetween fills out with how many of the given samples, which stand for a
// pair each of themselves and the sample before, have their pair in the window.
//
//	out[k] = number of p in pairs with lo < p < hi
func countBetween(pairs []int32, b *frame.Bounds, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	first, next := 0, 0 // pairs not after the window's first sample, and before its end
	for k, lo := range b.Lo {
		hi := b.Hi[k]
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

// lastPairs fills out with the difference of the last two samples of each window;
// as the rate of a counter it is per second, and after a reset the last sample
// itself. It returns the number of steps with a value.
func (s *Evaluator) lastPairs(kind difference) (points int) {
	fr, in, split, out := s.fr, &s.in, s.split, s.out
	e := fr.LastPairs(kind == counterLast)
	copy(out.Present, e.Pairs)
	for k := fr.From; k < split; {
		if kind == counterLast {
			end := dense.End(e.Pairs, k, split)
			k += packedPairs(out.Values[k:end], &in.Packed, fr.Hi[k:end], e.Factor[k:end])
		}
		for end := min(k+exact.Lanes, split); k < end; k++ {
			if hi := fr.Hi[k]; hi-fr.Lo[k] >= 2 {
				out.Values[k] = lastPair(kind, in.Value(hi-2), in.Value(hi-1), e.Factor[k])
			}
		}
	}
	for k := split; k < fr.To; k++ {
		if hi := fr.Hi[k]; hi-fr.Lo[k] >= 2 {
			out.Values[k] = lastPair(kind, in.Values[hi-2], in.Values[hi-1], e.Factor[k])
		}
	}
	return e.Points
}

func lastPair(kind difference, last, v, seconds float64) float64 {
	if kind == gaugeLast {
		return v - last
	}
	reset := uint64(0) // without a branch, which no processor would foresee
	if v < last {
		reset = 1
	}
	return float64(v-math.Float64frombits(math.Float64bits(last)&(reset-1))) / seconds
}
