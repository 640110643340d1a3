package window

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "stddev_over_time", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return math.Sqrt(exact.Variance(w.Values)), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.variances(true) },
		Abreast:    func(s *Evaluator) (int, bool) { return s.variancesAbreast(true) },
		Reads:      Integers,
		Slides:     varianceCost,
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Deviation", Recent: true},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "stdvar_over_time", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return exact.Variance(w.Values), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.variances(false) },
		Abreast:    func(s *Evaluator) (int, bool) { return s.variancesAbreast(false) },
		Reads:      Integers,
		Slides:     varianceCost,
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Variance", Recent: true},
	})
)

// variances slides where that is worth it.
func (s *Evaluator) variances(root bool) (points int, ok bool) {
	offsets, ok := s.slideOffsets(varianceCost, 0)
	if !ok {
		return s.variancesAbreast(root)
	}
	copy(s.out.Present, s.fr.Any)
	s.slidingVariances(offsets, root, s.out)
	return s.fr.Counts.Points, true
}

// variancesAbreast fills out with the variance of each window, or with its square root, by Prometheus's
// operations in its order.
func (s *Evaluator) variancesAbreast(root bool) (points int, ok bool) {
	strides, rest := s.fr.Bunches()
	if len(strides) > 0 {
		s.in.Prefetch(s.in.Times.Len())
	}
	points = s.strided(strides, func(st *frame.Stride, out []float64) {
		s.rows.Variances(root, out)
		for i, v := range out {
			if v-v != 0 {
				k := st.Step(i)
				out[i] = rootOf(exact.Variance(s.in.Values[s.bounds.Lo[k]:s.bounds.Hi[k]]), root)
			}
		}
	})
	return points + s.abreast(rest, func(windows *exact.Windows, g *frame.Group, out *[exact.Abreast]float64) {
		s.side.VarianceAbreast(windows, g.Common)
		for i, window := range windows[:g.N] {
			w := s.side.Welford(i, g.Common)
			for _, v := range window[g.Common:] {
				w.Add(v)
			}
			v := w.Variance()
			if v-v != 0 {
				v = exact.Variance(window)
			}
			out[i] = rootOf(v, root)
		}
	}), true
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
		s.addProducts(offsets, nil, int(b.First()), int(b.End()))
	}
	scale, enough := f.NarrowScale()*f.NarrowScale(), f.WideEnough(root)
	var sum, squares exact.Int192
	next, odd := b.First(), oddities{vs: s.in.Values, at: f.Odd}
	first := next
	for k := range b.Lo {
		if b.GiveUp(k) {
			break
		}
		lo, hi := b.Lo[k], b.Hi[k]
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
		total := sum.Float()
		if offsets != nil {
			total = f.NarrowSum(x, n)
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
