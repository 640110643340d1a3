package window

import (
	"fmt"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

// smoothing returns the reducer of double_exponential_smoothing: an exponential
// average of the values, by the smoothing factor, that follows their trend,
// itself smoothed by the trend factor. Both are between 0 and 1.
func smoothing(factor, trendFactor float64) reducer {
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

// CheckFactors returns Prometheus's error for factors of double_exponential_smoothing.
func CheckFactors(factor, trend float64) error {
	switch {
	case factor <= 0 || factor >= 1:
		return fmt.Errorf("invalid smoothing factor. Expected: 0 < sf < 1, got: %f", factor)
	case trend <= 0 || trend >= 1:
		return fmt.Errorf("invalid trend factor. Expected: 0 < tf < 1, got: %f", trend)
	}
	return nil
}

// smoothings is reduce with the reducer of each step's own factors.
func smoothings(v Varying, ts []int64, vs []float64, b *bounds, out dense.Row) (points int) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	for k, i := range b.lo {
		if b.giveUp(k) {
			break
		}
		if v, ok := smoothing(v[0][k], v[1][k])(ts[i:b.hi[k]], vs[i:b.hi[k]]); ok {
			cur.Set(k, v)
			points++
		}
	}
	return points
}
