package cpuexec

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

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

// first and end enclose the samples in all windows. Samples outside, which
// depend on how the series is cut into chunks, must not matter.
func (b *bounds) first() int32 { return b.lo[0] }

func (b *bounds) end() int32 { return b.hi[len(b.hi)-1] }

// giveUp reports whether the query has ended, so that the windows from step k on
// need not be computed.
func (b *bounds) giveUp(k int) bool { return b.watch.over(int(b.hi[k] - b.lo[k])) }

// overlap reports whether the windows hold more than times the samples and the
// steps. Then what they share is worth keeping from one to the next.
func (b *bounds) overlap(times int) bool {
	return b.total > 0 && b.total > times*(int(b.end()-b.first())+len(b.lo))
}

// slide decides whether to slide over vs, and prepares for it.
func (s *evaluator) slide(vs []float64, cost int) bool {
	return s.bounds.overlap(cost) && s.fixed.Set(vs, int(s.bounds.first()), int(s.bounds.end()))
}
