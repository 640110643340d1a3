package cpuexec

// smoothing returns the folder of double_exponential_smoothing: an exponential
// average of the values, by the smoothing factor, that follows their trend,
// itself smoothed by the trend factor. Both are between 0 and 1.
func smoothing(factor, trendFactor float64) folder {
	return func(_ []int64, vs []float64) (float64, bool) {
		if len(vs) < 2 {
			return 0, false
		}
		before, level, trend := 0.0, vs[0], vs[1]-vs[0]
		for k, v := range vs[1:] {
			if k > 0 {
				trend = float64(trendFactor*(level-before)) + float64((1-trendFactor)*trend)
			}
			before, level = level, float64(factor*v)+float64((1-factor)*(level+trend))
		}
		return level, true
	}
}
