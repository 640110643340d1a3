package exact

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/kahansum"
)

// Line is Prometheus's least-squares line through the samples at ts (ms): its slope per
// second, and its value at the time origin (ms).
func Line(ts []int64, vs []float64, origin int64) (slope, intercept float64) {
	if !slices.ContainsFunc(vs, func(v float64) bool { return v != vs[0] }) {
		if math.IsInf(vs[0], 0) {
			return math.NaN(), math.NaN()
		}
		return 0, vs[0]
	}
	m := finiteMoments(ts, vs, origin)
	if lost := m.cX + m.cY + m.cXY + m.cX2; lost-lost != 0 {
		m = anyMoments(ts, vs, origin)
	}
	return m.line(float64(len(vs)))
}

// anyMoments are the moments of samples of any size.
func anyMoments(ts []int64, vs []float64, origin int64) (m moments) {
	for k, v := range vs {
		x := float64(ts[k]-origin) / 1e3
		m.x, m.cX = kahansum.Inc(x, m.x, m.cX)
		m.y, m.cY = kahansum.Inc(v, m.y, m.cY)
		m.xy, m.cXY = kahansum.Inc(float64(x*v), m.xy, m.cXY)
		m.x2, m.cX2 = kahansum.Inc(float64(x*x), m.x2, m.cX2)
	}
	return m
}

// moments are the compensated sums of a regression.
type moments struct{ x, y, xy, x2, cX, cY, cXY, cX2 float64 }

// line is the least-squares line through the n samples that were added up.
func (m *moments) line(n float64) (slope, intercept float64) {
	x, y, xy, x2 := m.x+m.cX, m.y+m.cY, m.xy+m.cXY, m.x2+m.cX2
	slope = (xy - float64(x*y)/n) / (x2 - float64(x*x)/n)
	return slope, y/n - float64(slope*x)/n
}
