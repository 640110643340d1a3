package cpuexec

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/plan"
)

// folder computes a function of one window's samples. ts and vs hold at least
// one sample and no stale marker; at is the time of the step in ms. It reports
// false where the function has no value. scratch is memory to use and to grow.
type folder func(ts []int64, vs []float64, at int64, param float64, scratch *[]float64) (float64, bool)

// folders are the functions that look at each window's samples anew, by their
// names in plan.Windows. Each makes the floating-point operations of
// Prometheus's function of that name, in its order.
var folders = map[string]folder{
	"ts_of_min_over_time": func(ts []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		at := 0
		for k, v := range vs {
			if v <= vs[at] || vs[at] != vs[at] {
				at = k
			}
		}
		return float64(ts[at]) / 1000, true
	},
	"ts_of_max_over_time": func(ts []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		at := 0
		for k, v := range vs {
			if v >= vs[at] || vs[at] != vs[at] {
				at = k
			}
		}
		return float64(ts[at]) / 1000, true
	},
	"count_over_time": func(_ []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return float64(len(vs)), true
	},
	plan.Present.Name: func([]int64, []float64, int64, float64, *[]float64) (float64, bool) {
		return 1, true
	},
	"present_over_time": func([]int64, []float64, int64, float64, *[]float64) (float64, bool) {
		return 1, true
	},
	"first_over_time": func(_ []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return vs[0], true
	},
	"last_over_time": func(_ []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return vs[len(vs)-1], true
	},
	"ts_of_first_over_time": func(ts []int64, _ []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return float64(ts[0]) / 1000, true
	},
	"ts_of_last_over_time": func(ts []int64, _ []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return float64(ts[len(ts)-1]) / 1000, true
	},
	"stdvar_over_time": func(_ []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return varianceOf(vs), true
	},
	"stddev_over_time": func(_ []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return math.Sqrt(varianceOf(vs)), true
	},
	"quantile_over_time": func(_ []int64, vs []float64, _ int64, q float64, scratch *[]float64) (float64, bool) {
		*scratch = append((*scratch)[:0], vs...)
		return quantileOf(q, *scratch), true
	},
	"mad_over_time": func(_ []int64, vs []float64, _ int64, _ float64, scratch *[]float64) (float64, bool) {
		for _, v := range vs {
			if v != v {
				return math.NaN(), true
			}
		}
		s := append((*scratch)[:0], vs...)
		*scratch = s
		median := quantileOf(0.5, s)
		for k := range s {
			s[k] = math.Abs(s[k] - median)
		}
		return quantileOf(0.5, s), true
	},
	"changes": func(_ []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		n := 0
		for k := 1; k < len(vs); k++ {
			if a, b := vs[k-1], vs[k]; a != b && (a == a || b == b) {
				n++
			}
		}
		return float64(n), true
	},
	"resets": func(_ []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		n := 0
		for k := 1; k < len(vs); k++ {
			if vs[k] < vs[k-1] {
				n++
			}
		}
		return float64(n), true
	},
	"irate": func(ts []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return lastPair(ts, vs, true)
	},
	"idelta": func(ts []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		return lastPair(ts, vs, false)
	},
	"deriv": func(ts []int64, vs []float64, _ int64, _ float64, _ *[]float64) (float64, bool) {
		if len(vs) < 2 {
			return 0, false
		}
		slope, _ := regression(ts, vs, ts[0])
		return slope, true
	},
	"predict_linear": func(ts []int64, vs []float64, at int64, seconds float64, _ *[]float64) (float64, bool) {
		if len(vs) < 2 {
			return 0, false
		}
		slope, intercept := regression(ts, vs, at)
		return float64(slope*seconds) + intercept, true
	},
}

// fold fills out with f over the samples of each step's window and returns the
// number of steps with a value.
func fold(fr *frame, vs []float64, f folder, param float64, scratch *[]float64, out row) (points int) {
	cur := cursor{row: out}
	defer cur.flush()
	for k, lo := range fr.lo {
		hi := fr.hi[k]
		if lo == hi {
			continue
		}
		if v, ok := f(fr.ts[lo:hi], vs[lo:hi], fr.span.grid.At(k), param, scratch); ok {
			cur.set(k, v)
			points++
		}
	}
	return points
}

func sumOf(vs []float64) float64 {
	var sum, c float64
	for _, v := range vs {
		sum, c = kahansum.Inc(v, sum, c)
	}
	if math.IsInf(sum, 0) {
		return sum
	}
	return sum + c
}

// meanOf is the sum over the count, or, once the sum would overflow, a mean
// kept up to date sample by sample.
func meanOf(vs []float64) float64 {
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

// varianceOf is Welford's population variance, compensated.
func varianceOf(vs []float64) float64 {
	var n, mean, cMean, aux, cAux float64
	for _, v := range vs {
		n++
		delta := v - (mean + cMean)
		mean, cMean = kahansum.Inc(delta/n, mean, cMean)
		aux, cAux = kahansum.Inc(delta*(v-(mean+cMean)), aux, cAux)
	}
	return (aux + cAux) / n
}

// quantileOf sorts vs, NaN first, and interpolates between its neighbours of
// rank q·(n-1). q is within [0, 1].
func quantileOf(q float64, vs []float64) float64 {
	slices.Sort(vs)
	n := float64(len(vs))
	rank := q * (n - 1)
	lower := math.Max(0, math.Floor(rank))
	upper := math.Min(n-1, lower+1)
	weight := rank - math.Floor(rank)
	return float64(vs[int(lower)]*(1-weight)) + float64(vs[int(upper)]*weight)
}

// lastPair is the difference of the last two samples; as the rate of a counter
// it is per second, and after a reset the last sample itself.
func lastPair(ts []int64, vs []float64, rate bool) (float64, bool) {
	n := len(vs)
	if n < 2 {
		return 0, false
	}
	v := vs[n-1]
	if !rate || !(v < vs[n-2]) {
		v -= vs[n-2]
	}
	if rate {
		v /= float64(ts[n-1]-ts[n-2]) / 1000
	}
	return v, true
}

// regression is the least-squares line through the samples: its slope per
// second, and its value at the time origin, in ms.
func regression(ts []int64, vs []float64, origin int64) (slope, intercept float64) {
	var n, sumX, cX, sumY, cY, sumXY, cXY, sumX2, cX2 float64
	constant := true
	for k, v := range vs {
		constant = constant && (k == 0 || v == vs[0])
		n++
		x := float64(ts[k]-origin) / 1e3
		sumX, cX = kahansum.Inc(x, sumX, cX)
		sumY, cY = kahansum.Inc(v, sumY, cY)
		sumXY, cXY = kahansum.Inc(x*v, sumXY, cXY)
		sumX2, cX2 = kahansum.Inc(x*x, sumX2, cX2)
	}
	if constant {
		if math.IsInf(vs[0], 0) {
			return math.NaN(), math.NaN()
		}
		return 0, vs[0]
	}
	sumX += cX
	sumY += cY
	sumXY += cXY
	sumX2 += cX2
	covXY := sumXY - float64(sumX*sumY)/n
	varX := sumX2 - float64(sumX*sumX)/n
	slope = covXY / varX
	intercept = sumY/n - float64(slope*sumX)/n
	return slope, intercept
}
