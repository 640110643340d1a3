package window

import (
	"math"
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = defineExtreme("max_over_time", 1, "Max", Largest)
	_ = defineExtreme("min_over_time", -1, "Min", Smallest)
)

func defineExtreme(name string, sign float64, policy string, sees Sees) *plan.WindowFunc {
	return define(&Function{
		WindowFunc: plan.WindowFunc{Name: name},
		Plain:      func(w *Window) (float64, bool) { return extreme(w.Values, sign), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.extremes(sign), true },
		Reads:      Integers,
		Sees:       sees,
		GPU:        abi.Policy{Kernel: abi.ByOperator, Name: policy, Pane: abi.ExtremeBytes},
	})
}

// extreme is the largest value, or the smallest when sign is -1. Of equal ones it is the first, and
// where there are only NaNs the last.
func extreme(vs []float64, sign float64) float64 {
	best := vs[0]
	for _, v := range vs {
		if v*sign > best*sign || best != best {
			best = v
		}
	}
	return best
}

// timeOf is the time in seconds of the largest value, or the smallest when sign is -1: of the
// last of equal ones.
func (w *Window) timeOf(sign float64) float64 {
	at := 0
	for k, v := range w.Values {
		if best := w.Values[at]; v*sign >= best*sign || best != best {
			at = k
		}
	}
	return w.secondsAt(at)
}

// extremes fills out with the extreme of each window. Where windows have most of their samples in common
// it is found by keys: units of packed values have the order of these, and so have the keys of others,
// but for zeros of both signs, which are equal.
func (s *Evaluator) extremes(sign float64) (points int) {
	b, out := &s.bounds, s.out.Values
	copy(s.out.Present, s.fr.Any)
	if !b.Overlap(extremeCost) {
		s.eachExtreme(sign)
		return s.fr.Counts.Points
	}
	if units := s.unitsOf(s.in.Packed, s.in.Values, int(b.End())); units != nil {
		o := order[uint32]{flip: uint32(int32(sign) >> 1)}
		for k, best := range s.units.find(units, o, b) {
			out[k] = s.in.Base + float64(float64(best^o.flip)*s.in.Unit)
		}
		return s.fr.Counts.Points
	}
	vs, o := s.values(), order[int64]{flip: int64(sign) >> 1, shift: math.MaxInt64 - int64(infinite)}
	bits := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(vs))), len(vs))
	for k, best := range s.keys.find(bits, o, b) {
		out[k] = math.Float64frombits(uint64(order[int64]{}.key((best - o.shift) ^ o.flip)))
	}
	s.compareOdd(sign)
	return s.fr.Counts.Points
}

// eachExtreme is extremes from all samples of each window.
func (s *Evaluator) eachExtreme(sign float64) {
	b, out, smallest := &s.bounds, s.out.Values, sign < 0
	strides, rest := s.fr.Strides()
	if units := s.unitsOf(s.in.Packed, s.in.Values, int(b.End())); units != nil && strides == nil {
		for k, lo := range b.Lo {
			if hi := b.Hi[k]; lo < hi && !b.GiveUp(k) {
				low, high := exact.Range(units[lo:hi])
				if smallest {
					high = low
				}
				out[k] = s.in.Base + float64(float64(high)*s.in.Unit)
			}
		}
		return
	}
	s.strided(strides, func(_ *frame.Stride, out []float64) { s.rows.Extremes(smallest, out) })
	vs := s.values()
	extreme := func(k int) {
		if lo, hi := b.Lo[k], b.Hi[k]; lo < hi && !b.GiveUp(k) {
			out[k] = exact.Extreme(vs[lo:hi], smallest)
		}
	}
	for _, k := range rest {
		extreme(int(k))
	}
	for k := 0; k < len(b.Lo) && strides == nil; k++ {
		extreme(k)
	}
	s.compareOdd(sign)
}

// compareOdd finds extremes anew that are NaN, or zero where there are some below zero.
func (s *Evaluator) compareOdd(sign float64) {
	b, vs, below := &s.bounds, s.in.Values, false
	asked := false // whether there are zeros below zero
	for k, v := range s.out.Values {
		if v == v && v != 0 || b.Lo[k] == b.Hi[k] {
			continue
		}
		if v == 0 && !asked {
			asked, below = true, slices.ContainsFunc(vs, func(v float64) bool { return v == 0 && math.Signbit(v) })
		}
		if v != v || below {
			s.out.Values[k] = extreme(vs[b.Lo[k]:b.Hi[k]], sign)
		}
	}
}

// order makes keys of bits: of a float64 an integer that is larger where the float is, or with a flip
// of ones where it is smaller. A shift by what is between the largest integer and the key of the
// infinite puts NaNs below all others. Units are their own keys.
type order[T int64 | uint32] struct{ flip, shift T }

// infinite are the bits of the infinite above zero, and its key.
const infinite = 0x7ff << 52

func (o order[T]) key(bits T) T { return (bits ^ T(uint64(int64(bits)>>63)>>1) ^ o.flip) + o.shift }

// largest is the largest key of some bits, made of four at once.
func (o order[T]) largest(bits []T) T {
	best := [4]T{o.key(bits[0])}
	for i := range best {
		best[i] = best[0]
	}
	for len(bits) >= len(best) {
		a, b, c, d := o.key(bits[0]), o.key(bits[1]), o.key(bits[2]), o.key(bits[3])
		best[0], best[1], best[2], best[3] = max(best[0], a), max(best[1], b), max(best[2], c), max(best[3], d)
		bits = bits[len(best):]
	}
	for _, x := range bits {
		best[0] = max(best[0], o.key(x))
	}
	return max(best[0], best[1], best[2], best[3])
}

// largest finds the largest keys of windows.
type largest[T int64 | uint32] struct{ behind, best []T }

// find returns the largest key of each window. A window is cut at a sample within it. Of each sample
// before that the largest key from there to the cut is known, and the largest behind it grows with
// the window. Once a window begins behind the cut, the next cut is at its end. No branch depends on a
// value.
//
//	       lo            cut          hi
//	-------[--------------|-----------]------> samples
//	        behind[lo] <--|--> grown
func (l *largest[T]) find(bits []T, o order[T], b *frame.Bounds) []T {
	l.behind = slices.Grow(l.behind[:0], len(bits))[:len(bits)]
	l.best = slices.Grow(l.best[:0], len(b.Lo))[:len(b.Lo)]
	cut, next, grown := int32(0), int32(0), T(0)
	for k, lo := range b.Lo {
		hi := b.Hi[k]
		switch {
		case b.GiveUp(k):
			return l.best
		case lo == hi:
			continue
		case lo < cut:
			for _, x := range bits[next:hi] {
				grown = max(grown, o.key(x))
			}
			next, l.best[k] = hi, max(grown, l.behind[lo])
			continue
		}
		cut, next, grown = hi, hi, o.key(bits[hi-1])
		if k+1 == len(b.Lo) || b.Lo[k+1] >= hi { // nothing is asked of parts of the window
			l.best[k] = o.largest(bits[lo:hi])
			continue
		}
		in, behind, best := bits[lo:hi], l.behind[lo:hi], grown
		for i := len(in) - 1; i >= 0; i-- {
			best = max(best, o.key(in[i]))
			behind[i] = best
		}
		l.best[k] = best
	}
	return l.best
}
