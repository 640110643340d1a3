package exact

import (
	"math"
	"slices"
)

// Line is Prometheus's least-squares line through the samples at ts (ms): its slope per
// second, and its value at the time origin (ms).
func Line(ts []int64, vs []float64, origin int64) (slope, intercept float64) {
	if slope, intercept, ok := FlatLine(vs); ok {
		return slope, intercept
	}
	var seconds Seconds
	var products Products
	seconds.Add(ts, origin)
	for k, v := range vs {
		products.Add(ts[k]-origin, v)
	}
	return products.Line(&seconds, float64(len(vs)))
}

// FlatLine is the line through values that are equal, if they are.
func FlatLine(vs []float64) (slope, intercept float64, ok bool) {
	switch {
	case vs[len(vs)-1] != vs[0], slices.ContainsFunc(vs, func(v float64) bool { return v != vs[0] }):
		return 0, 0, false
	case math.IsInf(vs[0], 0):
		return math.NaN(), math.NaN(), true
	}
	return 0, vs[0], true
}
