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
		Fast:       func(s *Evaluator) (int, bool) { return s.sums(false), true },
		Reads:      Integers,
		GPU:        abi.Policy{Kernel: abi.ByOperator, Name: "Sum"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "avg_over_time", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return exact.Mean(w.Values), true },
		Fast:       func(s *Evaluator) (int, bool) { return s.sums(true), true },
		FastBits: func(s *Evaluator) (int, bool) {
			sums(s.in.Values, &s.bounds, true, s.out)
			return s.fr.counts.Points, true
		},
		Reads: Integers,
		GPU:   abi.Policy{Kernel: abi.ByOperator, Name: "Avg"},
	})
)

// sums fills out with the sum of each window, or with its mean, by the form that suits the
// values best. It returns the number of steps with a value.
func (s *Evaluator) sums(mean bool) int {
	if !s.integerSums(s.fr, &s.in, mean, s.out) {
		if s.in.Unpack(&s.joined); s.slide(s.in.Values, sumCost) {
			slidingSums(s.in.Values, &s.bounds, mean, &s.fixed, s.out)
		} else {
			sums(s.in.Values, &s.bounds, mean, s.out)
		}
	}
	return s.fr.counts.Points
}

// sums fills out with the sum of each window, or with its mean.
//
// A compensated sum is a chain of dependent additions, so the processor waits
// for each. Neighbouring windows share most of their samples: four of them are
// summed abreast, each by the additions that it would be alone, in order,
// so that the bits are those of Prometheus's loop.
func sums(vs []float64, b *bounds, mean bool, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	finish := func(k int, sum, c float64) {
		if n := float64(b.hi[k] - b.lo[k]); mean {
			cur.Set(k, float64(sum/n)+float64(c/n))
		} else {
			cur.Set(k, sum+c)
		}
	}
	overflows := exact.MayOverflow(vs)
	for k := 0; k < len(b.lo); {
		if b.giveUp(k) {
			return
		}
		if k+4 <= len(b.lo) && !overflows && b.hi[k]-b.lo[k+3] >= 8 {
			lo, hi := (*[4]int32)(b.lo[k:k+4]), (*[4]int32)(b.hi[k:k+4])
			sum, c := exact.SumFour(vs, lo, hi)
			for w := range 4 {
				finish(k+w, sum[w], c[w])
			}
			k += 4
			continue
		}
		if lo, hi := b.lo[k], b.hi[k]; lo < hi {
			if mean {
				cur.Set(k, exact.Mean(vs[lo:hi]))
			} else {
				cur.Set(k, exact.Sum(vs[lo:hi]))
			}
		}
		k++
	}
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
