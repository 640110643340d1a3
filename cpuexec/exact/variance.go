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
