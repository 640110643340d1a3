package exact

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"
)

// Lanes is the number of values that AddFinite adds at once.
const Lanes = 4

// Sum is Prometheus's compensated sum.
func Sum(vs []float64) float64 {
	var sum, c float64
	for _, v := range vs {
		sum, c = kahansum.Inc(v, sum, c)
	}
	if math.IsInf(sum, 0) {
		return sum
	}
	return sum + c
}

// Mean is Prometheus's mean of at least one value: the sum over the count, or, once the sum
// would overflow, a mean kept up to date sample by sample.
func Mean(vs []float64) float64 {
	sum, c, n := vs[0], 0.0, 1.0
	for k := 1; k < len(vs); k++ {
		n = float64(k + 1)
		next, nextC := kahansum.Inc(vs[k], sum, c)
		if math.IsInf(next, 0) {
			return runningMean(vs, k, sum/(n-1), c/(n-1))
		}
		sum, c = next, nextC
	}
	return float64(sum/n) + float64(c/n)
}

// runningMean goes on from the mean of the first k samples.
func runningMean(vs []float64, k int, mean, c float64) float64 {
	for ; k < len(vs); k++ {
		n := float64(k + 1)
		q := (n - 1) / n
		mean, c = kahansum.Inc(vs[k]/n, q*mean, q*c)
	}
	return mean + c
}

// SumFour sums four windows that overlap. The common stretch starts at lo[3] and
// ends at hi[0].
func SumFour(vs []float64, lo, hi *[4]int32) (sum, c [4]float64) {
	for w := range 4 {
		for _, v := range vs[lo[w]:lo[3]] {
			sum[w], c[w] = kahansum.Inc(v, sum[w], c[w])
		}
	}
	s0, s1, s2, s3 := sum[0], sum[1], sum[2], sum[3]
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	for _, v := range vs[lo[3]:hi[0]] {
		s0, c0 = twoSum(s0, v, c0)
		s1, c1 = twoSum(s1, v, c1)
		s2, c2 = twoSum(s2, v, c2)
		s3, c3 = twoSum(s3, v, c3)
	}
	sum, c = [4]float64{s0, s1, s2, s3}, [4]float64{c0, c1, c2, c3}
	for w := range 4 {
		for _, v := range vs[hi[0]:hi[w]] {
			sum[w], c[w] = kahansum.Inc(v, sum[w], c[w])
		}
	}
	return sum, c
}

// twoSum adds v to sum and the rounding error to c. Knuth's formula yields the
// same error as Neumaier's, which is always representable, without a branch on
// which of the two is larger. It must not overflow.
func twoSum(sum, v, c float64) (float64, float64) {
	t := sum + v
	b := t - sum
	return t, c + ((sum - (t - b)) + (v - b))
}

// MayOverflow reports whether a sum of some of the values could be infinite.
func MayOverflow(vs []float64) bool {
	limit := math.MaxFloat64 / float64(len(vs)+1)
	for _, v := range vs {
		if v > limit || v < -limit {
			return true
		}
	}
	return false
}
