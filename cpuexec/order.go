package cpuexec

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// slidingQuantiles fills out with the quantile of each window.
func slidingQuantiles(b *bounds, o *exact.Ranks, q float64, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	next := b.first()
	first := next
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		next, first = o.Move(b.lo[k], b.hi[k], next, first)
		if n := int(b.hi[k] - b.lo[k]); n > 0 {
			cur.Set(k, o.Quantile(q, n))
		}
	}
}

// slidingDeviations fills out with the median absolute deviation of each window.
func slidingDeviations(vs []float64, b *bounds, o *exact.Ranks, scratch *[]float64, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	next, odd := b.first(), oddities{vs: vs, at: o.Odd}
	first := next
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		next, first = o.Move(lo, hi, next, first)
		if lo == hi {
			continue
		}
		if any, _ := odd.in(lo, hi); any || o.Tiny {
			cur.Set(k, exact.MedianDeviation(vs[lo:hi], scratch))
		} else {
			cur.Set(k, o.MedianDeviation(int(hi-lo)))
		}
	}
}
