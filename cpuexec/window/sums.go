package window

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "sum_over_time"},
		Plain:      func(w *Window) (float64, bool) { return exact.Sum(w.Values), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.sums(false) },
		Reads:      Integers,
		Sees:       Total,
		GPU:        abi.Policy{Kernel: abi.ByOperator, Name: "Sum", Pane: abi.TotalBytes},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "avg_over_time", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return exact.Mean(w.Values), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.sums(true) },
		Reads:      Integers,
		Sees:       Average,
		GPU:        abi.Policy{Kernel: abi.ByOperator, Name: "Avg", Pane: abi.TotalBytes},
	})
)

// sums slides over the sums of the windows, or their means, where that is worth it.
func (s *Evaluator) sums(mean bool) (points int, ok bool) {
	if s.integerSums(s.fr, &s.in, mean, s.out) {
		return s.fr.counts.Points, true
	}
	if !s.slide(s.values(), sumCost) {
		return 0, false
	}
	slidingSums(s.in.Values, &s.bounds, mean, &s.fixed, s.out)
	return s.fr.counts.Points, true
}

// slidingSums fills out with the sum of each window, or with its mean. What
// enters and leaves a window is added to and taken from an exact sum S of
// integers, so a step costs what its new samples cost.
//
// Prometheus's compensated sum is s + c, where s is the plain sum and c that of
// its rounding errors. With u = 2^-53 and no value above M,
//
//	|c| <= n²·u·M and |s + c - S| <= n³·u²·M
//
// and where all sums are small integers c is 0 and s is S. A sum is stored only
// where rounding S with that error added and taken away yields the same bits,
// which are then Prometheus's. Its mean s/n + c/n depends on s, so a mean has
// Prometheus's bits where S is small, and is else within 4·u of it, provided c
// is small beside S. Windows of which this cannot be said are summed anew.
func slidingSums(vs []float64, b *bounds, mean bool, f *exact.Fixed, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	var sum exact.Int192
	next, odd := b.first(), oddities{vs: vs, at: f.Odd}
	first := next
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		for ; next < hi; next++ {
			sum = sum.Plus(f.Units[next])
		}
		for ; first < lo; first++ {
			sum = sum.Plus(-f.Units[first])
		}
		if lo == hi {
			continue
		}
		if any, nan := odd.in(lo, hi); nan {
			cur.Set(k, math.NaN())
			continue
		} else if !any {
			v, ok := 0.0, false
			if n := int(hi - lo); mean {
				v, ok = f.Mean(sum, n)
			} else {
				v, ok = f.Sum(sum, n)
			}
			if ok {
				cur.Set(k, v)
				continue
			}
		}
		if mean {
			cur.Set(k, exact.Mean(vs[lo:hi]))
		} else {
			cur.Set(k, exact.Sum(vs[lo:hi]))
		}
	}
}

// integerSums fills out with the sum of each window of fr, or with its mean, from the
// packed values of in and those that come then. It reports false, with nothing filled
// in, where these are not packed alike or the largest sum may be none that a float64 holds.
//
// A sum of integers, none of whose parts is beyond 2^53, is exact in whatever order
// it is added up, and its compensation is 0. So a window's is the difference of two
// sums of all samples up to its ends.
func (s *Evaluator) integerSums(fr *frame, in *column.Samples, mean bool, out dense.Row) bool {
	first, end := int(fr.first()), int(fr.end())
	units := s.unitsOf(in.Packed, in.Values, end)
	if units == nil || first == end {
		return false
	}
	low, high := exact.Range(units[first:end])
	base, unit := int64(in.Base), int64(in.Unit)
	if most := max(base+int64(high)*unit, -base-int64(low)*unit); float64(most)*float64(fr.counts.MaxWindow) > exact.MaxInteger {
		return false
	}
	s.upTo = slices.Grow(s.upTo[:0], end+1)[:end+1]
	upTo, sum := s.upTo[first:], int64(0)
	for i, u := range units[first:end] {
		upTo[i] = sum
		sum += int64(u)
	}
	upTo[end-first] = sum
	copy(out.Present, fr.any)
	upTo, vals, his := s.upTo, out.Values[fr.from:fr.to], fr.hi[fr.from:fr.to]
	for k, lo := range fr.lo[fr.from:fr.to] {
		hi := his[k]
		if n := int64(hi - lo); n > 0 {
			v := float64(base*n + unit*(upTo[hi]-upTo[lo]))
			if mean {
				v /= float64(n)
			}
			vals[k] = v
		}
	}
	return true
}

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "stddev_over_time", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return math.Sqrt(exact.Variance(w.Values)), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.slideVariances(true) },
		Reads:      Integers,
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Deviation"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "stdvar_over_time", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return exact.Variance(w.Values), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.slideVariances(false) },
		Reads:      Integers,
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Variance"},
	})
)

// slideVariances slides where that is worth it.
func (s *Evaluator) slideVariances(root bool) (points int, ok bool) {
	offsets, ok := s.slideOffsets(varianceCost, 0)
	if !ok {
		return 0, false
	}
	copy(s.out.Present, s.fr.any)
	s.slidingVariances(offsets, root, s.out)
	return s.fr.counts.Points, true
}

// slidingVariances fills out with the population variance of each window, or
// with its square root. Integers enter and leave the sums S of the values and Q
// of their squares, so that
//
//	variance = (n·Q - S²) / n²
//
// has an exact numerator, however large the mean is beside the deviations.
//
// Prometheus's own answer is rounded at each sample. Going through its formula
//
//	delta = v - mean; mean += delta / k; aux += delta · (v - mean)
//
// the mean is at most u·(X+2D) off, where u = 2^-53, X is the largest magnitude
// and D the distance of the smallest value to the largest, and so the answer is
// relative to the true variance at most 6·u·(X+D)/deviation off, and half of
// that when it is a deviation. D is at most deviation·√(2n). Windows where this is too
// much are computed as Prometheus does. Equal values have variance 0 in both.
func (s *Evaluator) slidingVariances(offsets []uint32, root bool, out dense.Row) {
	f, b := &s.fixed, &s.bounds
	if offsets != nil {
		s.addSquares(offsets, int(b.first()), int(b.end()))
	}
	scale, enough := f.NarrowScale()*f.NarrowScale(), f.WideEnough(root)
	var sum, squares exact.Int192
	next, odd := b.first(), oddities{vs: s.in.Values, at: f.Odd}
	first := next
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		if offsets == nil {
			for ; next < hi; next++ {
				x := f.Units[next]
				sum, squares = sum.Plus(x), squares.Add(exact.Product(x, x))
			}
			for ; first < lo; first++ {
				x := f.Units[first]
				sum, squares = sum.Plus(-x), squares.Sub(exact.Product(x, x))
			}
		}
		if lo == hi {
			continue
		}
		v, n, numerator, x := math.NaN(), int(hi-lo), 0.0, uint64(0)
		if offsets != nil {
			x = uint64(s.upTo[hi] - s.upTo[lo])
			numerator = float64(int64(uint64(n)*(s.squares[hi]-s.squares[lo])-x*x)) * scale
		} else if any, nan := odd.in(lo, hi); any {
			if !nan {
				v = exact.Variance(s.in.Values[lo:hi])
			}
			out.Values[k] = rootOf(v, root)
			continue
		} else {
			numerator = squares.Times(n).Sub(sum.Mul(sum)).Float()
		}
		if count := float64(n); numerator > enough*(count*count) {
			out.Values[k] = rootOf(numerator/(count*count)*f.Unit*f.Unit, root)
			continue
		}
		total := 0.0
		if offsets != nil {
			total = f.NarrowSum(x, n)
		} else {
			total = sum.Float()
		}
		v, ok := f.Variance(total, numerator, n, root)
		if !ok {
			v = exact.Variance(s.values()[lo:hi])
		}
		out.Values[k] = rootOf(v, root)
	}
}

// rootOf is a variance, or with root its square root.
func rootOf(v float64, root bool) float64 {
	if root {
		return math.Sqrt(v)
	}
	return v
}

// addSquares adds up the offsets of samples from to to, and their squares, before each.
func (s *Evaluator) addSquares(offsets []uint32, from, to int) {
	s.upTo, s.squares = slices.Grow(s.upTo[:0], to+1)[:to+1], slices.Grow(s.squares[:0], to+1)[:to+1]
	upTo, squares := s.upTo[from:], s.squares[from:to+1]
	sum, sum2 := int64(0), uint64(0)
	for i, u := range offsets[from:to] {
		upTo[i], squares[i] = sum, sum2
		x := uint64(u)
		sum, sum2 = sum+int64(x), sum2+x*x
	}
	upTo[to-from], squares[to-from] = sum, sum2
}

// oddities tells which windows have samples that are not finite.
type oddities struct {
	vs []float64
	at []int32 // those samples, of which the ones before the window are dropped
}

// in reports whether any of the samples lo to hi is not finite, and whether one
// of them is NaN. Windows are asked for in order.
func (o *oddities) in(lo, hi int32) (any, nan bool) {
	for len(o.at) > 0 && o.at[0] < lo {
		o.at = o.at[1:]
	}
	for _, k := range o.at {
		if k >= hi {
			break
		}
		if any = true; o.vs[k] != o.vs[k] {
			return true, true
		}
	}
	return any, false
}

// Sliding costs, for each sample and each step, about as much as this many
// samples of a window cost that is computed anew.
const sumCost, varianceCost, regressionCost, quantileCost, deviationCost = 3, 2, 2, 2, 5

// slide decides whether to slide over vs, and prepares for it.
func (s *Evaluator) slide(vs []float64, cost int) bool {
	return s.bounds.overlap(cost) && s.fixed.Set(vs, int(s.bounds.first()), int(s.bounds.end()))
}

// slideOffsets decides whether to slide over the values, and prepares for it: as slide does, or,
// where the values of all windows are narrow, with their offsets. Packed values are unpacked only
// where these are wanted. reach is that of exact.Fixed.Narrow.
func (s *Evaluator) slideOffsets(cost int, reach int64) (offsets []uint32, ok bool) {
	if !s.bounds.overlap(cost) {
		return nil, false
	}
	first, end, f := int(s.bounds.first()), int(s.bounds.end()), &s.fixed
	if units := s.unitsOf(s.in.Packed, s.in.Values, end); units != nil {
		low, high := exact.Range(units[first:end])
		if f.SetNarrow(s.in.Base, s.in.Unit, low, high); f.Narrow(s.bounds.most, reach) {
			return units, true
		}
	}
	if !f.Set(s.values(), first, end) {
		return nil, false
	}
	if f.Narrow(s.bounds.most, reach) {
		s.offsets = f.Offsets(s.offsets, first, end)
		return s.offsets, true
	}
	return nil, true
}

// values are all values, packed or not.
func (s *Evaluator) values() []float64 {
	s.in.Unpack(&s.joined)
	return s.in.Values
}

// unitsOf returns the units of packed samples up to the given one, and of those of tail, which
// come then, or nil where one of them has none.
func (s *Evaluator) unitsOf(packed column.Packed, tail []float64, end int) []uint32 {
	known := len(packed.Units)
	if known == 0 || end <= known {
		return packed.Units
	}
	s.offsets = append(s.offsets[:0], packed.Units...)
	for _, v := range tail[:end-known] {
		u := (v - packed.Base) / packed.Unit
		if !(u >= 0 && u <= math.MaxUint32) || packed.Base+float64(float64(uint32(u))*packed.Unit) != v || !exact.IsInteger(v) {
			return nil
		}
		s.offsets = append(s.offsets, uint32(u))
	}
	return s.offsets
}
