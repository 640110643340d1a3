package exact

import "github.com/prometheus/prometheus/util/kahansum"

// Variance is Welford's population variance, compensated.
func Variance(vs []float64) float64 {
	var n, mean, cMean, aux, cAux float64
	for _, v := range vs {
		n++
		delta := v - (mean + cMean)
		mean, cMean = kahansum.Inc(delta/n, mean, cMean)
		aux, cAux = kahansum.Inc(delta*(v-(mean+cMean)), aux, cAux)
	}
	return (aux + cAux) / n
}

// Welford is the state of Prometheus's variance: the mean so far and the sum of
// squared deviations, both compensated.
type Welford struct{ mean, cMean, aux, cAux float64 }

// Add adds the n-th value. The sums must not overflow: see twoSum.
func (s Welford) Add(v, n float64) Welford {
	delta := v - (s.mean + s.cMean)
	s.mean, s.cMean = twoSum(s.mean, delta/n, s.cMean)
	s.aux, s.cAux = twoSum(s.aux, float64(delta*(v-(s.mean+s.cMean))), s.cAux)
	return s
}

// Variance is that of the n values that were added.
func (s Welford) Variance(n float64) float64 { return (s.aux + s.cAux) / n }
