package window

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
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
		Abreast:    func(s *Evaluator) (int, bool) { return s.sumsAbreast(true) },
		Reads:      Integers,
		Slides:     sumCost,
		Whole:      true,
		Sees:       Average,
		GPU:        abi.Policy{Kernel: abi.ByOperator, Name: "Avg", Pane: abi.TotalBytes},
	})
)

// sums slides over the sums of the windows, or their means, where that is worth it.
func (s *Evaluator) sums(mean bool) (points int, ok bool) {
	if s.integerSums(s.fr, &s.in, mean, s.out) || s.runningSums(mean) {
		return s.fr.Counts.Points, true
	}
	s.Varies = s.Varies || mean
	if b := &s.bounds; b.Overlap(sumCost) && s.fixed.Set(s.values(), int(b.First()), int(b.End())) {
		slidingSums(s.in.Values, &s.bounds, mean, &s.fixed, s.out)
		return s.fr.Counts.Points, true
	}
	if !mean && s.fr.Span.Grid.Steps > 1 && s.bounds.Most >= exact.LeastLong {
		vs, of := s.values(), s.in.Magnitudes()
		s.bounds.Each(s.out, func(_ int, lo, hi int32) float64 { return exact.FastSum(vs[lo:hi], of) })
		return s.fr.Counts.Points, true
	}
	return s.sumsAbreast(mean)
}

// sumsAbreast fills out with the sums of windows, or their means, by Prometheus's operations in its
// order.
func (s *Evaluator) sumsAbreast(mean bool) (points int, ok bool) {
	plain, of := exact.Sum, exact.Magnitudes{}
	if mean {
		plain = exact.Mean
	}
	strides, rest := s.fr.Bunches()
	if mean && len(strides) > 0 {
		s.values()
		of = s.in.Magnitudes()
	}
	points = s.strided(strides, func(st *frame.Stride, out []float64) {
		n := 1.0
		if mean {
			if n = float64(st.Samples); s.rows.Means(of, out) {
				return
			}
		}
		s.rows.Sums(n, out)
		for i, v := range out {
			if v-v != 0 || v == 0 { // as below
				k := st.Step(i)
				out[i] = plain(s.in.Values[s.bounds.Lo[k]:s.bounds.Hi[k]])
			}
		}
	})
	return points + s.abreast(rest, func(w *exact.Windows, g *frame.Group, out *[exact.Abreast]float64) {
		s.side.AddAbreast(w, g.Common)
		for i, window := range w[:g.N] {
			n := float64(len(window))
			sum, c := s.side.Of(0, i)
			if g.Common < len(window) {
				sum, c = exact.Accumulate(window[g.Common:], sum, c)
			}
			switch {
			case sum-sum != 0 || c-c != 0 || sum == 0: // a mean may be finite where the sum is not, or the zero below zero
				sum = plain(window)
			case mean:
				sum = float64(sum/n) + float64(c/n)
			default:
				sum += c
			}
			out[i] = sum
		}
	}), true
}

// runningSums fills out with the sum of each window, or with its mean, where exact.Running has them, and
// windows overlap.
func (s *Evaluator) runningSums(mean bool) bool {
	b, fr, set := &s.bounds, s.fr, s.running.Set
	if !mean && b.Most > exact.MostRunning || !b.Overlap(1) {
		return false
	}
	if mean {
		set = s.running.SetIntegers
	}
	s.in.Prefetch(s.in.Times.Len())
	if !set(s.values(), int(b.First()), int(b.End()), b.Most) {
		return false
	}
	copy(s.out.Present, fr.Any)
	out, his := s.out.Values[fr.From:fr.To], b.Hi[fr.From:fr.To]
	for k, lo := range b.Lo[fr.From:fr.To] {
		out[k] = s.running.Sum(lo, his[k])
		if n := his[k] - lo; mean && n > 0 {
			out[k] /= float64(n)
		}
	}
	return true
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
func slidingSums(vs []float64, b *frame.Bounds, mean bool, f *exact.Fixed, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	value, plain := f.Sum, exact.Sum
	if mean {
		value, plain = f.Mean, exact.Mean
	}
	var sum exact.Int192
	next, odd := b.First(), oddities{vs: vs, at: f.Odd}
	first := next
	for k := range b.Lo {
		if b.GiveUp(k) {
			break
		}
		lo, hi := b.Lo[k], b.Hi[k]
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
			if v, ok := value(sum, int(hi-lo)); ok {
				cur.Set(k, v)
				continue
			}
		}
		cur.Set(k, plain(vs[lo:hi]))
	}
}

// integerSums fills out with the sum of each window of fr, or with its mean, from the
// packed values of in and the values that follow. It reports false, with nothing filled
// in, where these are not packed alike or the largest sum may be none that a float64 holds.
//
// A sum of integers, none of whose parts is beyond 2^53, is exact in whatever order
// it is added up, and its compensation is 0. So a window's is the difference of two
// sums of all samples up to its ends.
func (s *Evaluator) integerSums(fr *frame.Frame, in *column.Samples, mean bool, out dense.Row) bool {
	first, end := int(fr.First()), int(fr.End())
	units := s.unitsOf(in.Packed, in.Values, end)
	if units == nil || first == end {
		return false
	}
	low, high := exact.Range(units[first:end])
	base, unit := int64(in.Base), int64(in.Unit)
	if most := max(base+int64(high)*unit, -base-int64(low)*unit); float64(most)*float64(fr.Counts.MaxWindow) > exact.MaxInteger {
		return false
	}
	s.upTo = slices.Grow(s.upTo[:0], end+1)[:end+1]
	upTo, sum := s.upTo[first:end], int64(0)
	for i, u := range units[first:end][:len(upTo)] {
		upTo[i] = sum
		sum += int64(u)
	}
	s.upTo[end] = sum
	copy(out.Present, fr.Any)
	upTo, vals, his := s.upTo, out.Values[fr.From:fr.To], fr.Hi[fr.From:fr.To]
	for k, lo := range fr.Lo[fr.From:fr.To] {
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
