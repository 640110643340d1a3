package histogram

import (
	"math"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/util/almost"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// blockSteps is the number of steps whose buckets are read together. A
// histogram's buckets lie in rows of their own, so that reading them step by
// step would jump between as many places in memory.
const blockSteps = 64

// quantileBlock computes quantiles of a classic histogram at many steps, with
// the bits of promql.BucketQuantile.
type quantileBlock struct {
	counts [][blockSteps]float64 // of each bucket, made monotonic
	odd    bool                  // a count in the block is NaN
}

// quantiles fills out with the φ-quantiles of the histogram whose buckets are
// cols, at consecutive steps of which the first is given. cols is reordered.
func (b *quantileBlock) quantiles(q float64, cols []bucketColumn, out []float64, first int, fixed *repairs) {
	switch {
	case q != q:
		dense.Fill(out, math.NaN())
		return
	case q < 0:
		dense.Fill(out, math.Inf(-1))
		return
	case q > 1:
		dense.Fill(out, math.Inf(1))
		return
	}
	cols = sortColumns(cols)
	last := len(cols) - 1
	if !math.IsInf(cols[last].bound, 1) || last == 0 {
		dense.Fill(out, math.NaN())
		return
	}
	if len(b.counts) < len(cols) {
		b.counts = make([][blockSteps]float64, len(cols))
	}
	at := 0 // the bucket of the last quantile, where the next one is likely, too
	for lo := 0; lo < len(out); lo += blockSteps {
		hi := min(lo+blockSteps, len(out))
		b.load(cols, lo, hi, first, fixed)
		at = b.fill(q, cols, out[lo:hi], at)
	}
}

// sortColumns puts buckets in the order of their upper bounds and adds up those
// that have the same. Prometheus sorts by the same comparisons, so that counts
// of the same bound are added in its order.
func sortColumns(cols []bucketColumn) []bucketColumn {
	slices.SortFunc(cols, func(a, b bucketColumn) int {
		switch {
		case a.bound < b.bound:
			return -1
		case a.bound > b.bound:
			return 1
		}
		return 0
	})
	out := cols[:1]
	owned := false // the last column of out is a sum, not a row of the input
	for _, c := range cols[1:] {
		sum := &out[len(out)-1]
		if c.bound != sum.bound {
			out, owned = append(out, c), false
			continue
		}
		if !owned {
			sum.counts, owned = slices.Clone(sum.counts), true
		}
		for k, v := range c.counts {
			sum.counts[k] += v
		}
	}
	return out
}

// tolerance is the relative difference of counts of neighbouring buckets below
// which Prometheus takes them for equal.
const tolerance = 1e-12

// load reads the counts of steps lo to hi and makes them monotonic: a count
// that is lower than the one before becomes that one.
func (b *quantileBlock) load(cols []bucketColumn, lo, hi, first int, fixed *repairs) {
	b.odd = false
	lowest := b.counts[0][:copy(b.counts[0][:], cols[0].counts[lo:hi])]
	negative := slices.ContainsFunc(lowest, func(v float64) bool { return !(v >= 0) })
	for i, c := range cols[1:] {
		in := c.counts[lo:hi]
		before, out := b.counts[i][:len(in)], b.counts[i+1][:len(in)]
		careful := negative || b.odd
		for k := 0; k < len(in); k++ {
			if !careful {
				if k += copyRising(out[k:], before[k:], in[k:]); k == len(in) {
					break
				}
			}
			out[k] = b.monotonic(before[k], in[k], c.bound, first+lo+k, fixed)
		}
	}
}

// monotonic returns what a bucket's count v becomes after a bucket of count p.
func (b *quantileBlock) monotonic(p, v, bound float64, step int, fixed *repairs) float64 {
	b.odd = b.odd || v != v || p != p
	switch {
	case v == p:
		return v
	case almost.Equal(p, v, tolerance):
		return p
	case v < p:
		fixed.add(step, bound, p-v)
		return p
	}
	return v
}

// copyRising copies counts as long as each is the one of the bucket before or
// clearly more, and returns how many. Those before are not less than 0.
//
// Clearly is by more than v/2^36, seven times the tolerance. On the bits of
// floats that is one comparison of integers, with no division and no branch on
// whether the two are equal: v = p makes the left side, and a v too small for its
// exponent to be reduced the right side, the largest of numbers. The loop is a
// function of its own, never inlined, so that all of it stays in registers.
//
//go:noinline
func copyRising(out, before, in []float64) int {
	before, out = before[:len(in)], out[:len(in)]
	for k, v := range in {
		p := before[k]
		if !(v >= p) || math.Float64bits(v-p)-1 < math.Float64bits(v)-36<<52 {
			return k
		}
		out[k] = v
	}
	return len(in)
}

// fill computes the quantiles at the steps of the block. at is the bucket to try
// first; the one to try first at the next step is returned.
func (b *quantileBlock) fill(q float64, cols []bucketColumn, out []float64, at int) int {
	last := len(cols) - 1
	counts := b.counts[:last+1]
	total := counts[last][:len(out)]
	for k, observations := range total {
		if observations == 0 {
			out[k] = math.NaN()
			continue
		}
		rank := float64(q * observations)
		if b.odd {
			at = sort.Search(last, func(i int) bool { return counts[i][k] >= rank })
		} else {
			for at < last && !(counts[at][k] >= rank) {
				at++
			}
			for at > 0 && counts[at-1][k] >= rank {
				at--
			}
		}
		switch {
		case at == last:
			out[k] = cols[last-1].bound
			continue
		case at == 0 && cols[0].bound <= 0:
			out[k] = cols[0].bound
			continue
		}
		start, count := 0.0, counts[at][k]
		if at > 0 {
			start = cols[at-1].bound
			below := counts[at-1][k]
			count -= below
			rank -= below
		}
		out[k] = start + float64((cols[at].bound-start)*(rank/count))
	}
	return at
}
