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
		Plain:      func(w *Window) (float64, bool) { return exact.FirstExtreme(w.Values, sign < 0), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.extremes(sign), true },
		Reads:      Integers,
		Sees:       sees,
		GPU:        abi.Policy{Kernel: abi.ByOperator, Name: policy, Pane: abi.ExtremeBytes},
	})
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
		o := exact.Order[uint32]{Flip: uint32(int32(sign) >> 1)}
		for k, best := range s.units.Find(units, o, b.Lo, b.Hi, b.GiveUp) {
			out[k] = s.in.Base + float64(float64(best^o.Flip)*s.in.Unit)
		}
		return s.fr.Counts.Points
	}
	vs, o := s.values(), exact.OrderOf(sign)
	bits := unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(vs))), len(vs))
	for k, best := range s.keys.Find(bits, o, b.Lo, b.Hi, b.GiveUp) {
		out[k] = exact.ValueOf(best, o)
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
			s.out.Values[k] = exact.FirstExtreme(vs[b.Lo[k]:b.Hi[k]], sign < 0)
		}
	}
}
