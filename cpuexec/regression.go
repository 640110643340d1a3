package cpuexec

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/plan"
)

// slidingRegressions fills out with the slope of the least-squares line through
// each window's samples, per second, or, with predict, with its value that many
// seconds after the step. It returns the number of steps with a value, those
// whose window has two samples or more.
//
// With times T in ms since the first sample, and values Y in units, both
// integers, the sums of T, T², Y and T·Y of a window are exact, and so are
//
//	covariance = n·ΣTY - ΣT·ΣY and variance = n·ΣT² - (ΣT)²
//
// which do not depend on where T starts. The slope is their ratio.
//
// Windows where Prometheus's own answer may be further from that than an answer
// may be from Prometheus's are folded as Prometheus does: see fit.value.
func slidingRegressions(ts []int64, vs []float64, b *bounds, f *fixed, l line, out row) (points int) {
	cur := cursor{row: out}
	defer cur.flush()
	var times int64
	var squares, sum, products wide
	next, odd := b.first(), oddities{vs: vs, at: f.odd}
	first := next
	base := ts[first]
	changed := int32(0) // the last sample that differs from the one before
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		l.at(k)
		for ; next < hi; next++ {
			t, x := ts[next]-base, f.x[next]
			times += t
			squares, sum, products = squares.add(product(t, t)), sum.plus(x), products.add(product(t, x))
			if next > 0 && vs[next] != vs[next-1] {
				changed = next
			}
		}
		for ; first < lo; first++ {
			t, x := ts[first]-base, f.x[first]
			times -= t
			squares, sum, products = squares.sub(product(t, t)), sum.plus(-x), products.sub(product(t, x))
		}
		if hi-lo < 2 {
			continue
		}
		points++
		any, nan := odd.in(lo, hi)
		if nan {
			cur.set(k, math.NaN())
			continue
		}
		origin := l.origin(ts[lo], k)
		if !any {
			if changed <= lo {
				cur.set(k, l.value(0, vs[lo]))
				continue
			}
			n := int(hi - lo)
			fit := fit{
				n:          float64(n),
				covariance: products.times(n).sub(sum.mul(wide{}.plus(times))).float(),
				variance:   squares.times(n).sub(product(times, times)).float(),
				sum:        sum.float(),
				center:     float64(times-int64(n)*(origin-base)) / float64(n),
				start:      float64(ts[lo] - origin),
				end:        float64(ts[hi-1] - origin),
			}
			v, ok := fit.value(&l, f)
			if !ok {
				v = l.value(finiteRegression(ts[lo:hi], vs[lo:hi], origin))
			}
			cur.set(k, v)
			continue
		}
		cur.set(k, l.value(regression(ts[lo:hi], vs[lo:hi], origin)))
	}
	return points
}

// line says what is asked of a least-squares line.
type line struct {
	predict bool // its value at a time, rather than its slope
	seconds float64
	each    []float64 // seconds by step, where they vary
	grid    plan.Grid
}

// at sets how far to predict at step k.
func (l *line) at(k int) {
	if l.each != nil {
		l.seconds = l.each[k]
	}
}

// origin is the time that Prometheus's x counts from, in ms, for a window of
// step k that starts with a sample at first.
func (l *line) origin(first int64, k int) int64 {
	if l.predict {
		return l.grid.At(k)
	}
	return first
}

// value is what is asked of the line with the slope, per second, and the value
// at the origin.
func (l *line) value(slope, intercept float64) float64 {
	if l.predict {
		return float64(slope*l.seconds) + intercept
	}
	return slope
}

// fit is a least-squares line: n samples, their covariance and the variance of
// their times, both times n², in ms and units of a fixed, and the sum of their
// values. start, end and center are the times of the first and the last sample
// and the mean time, from the origin in ms.
type fit struct {
	n, covariance, variance, sum, center, start, end float64
}

// value returns what l asks of the line. It reports false where
// Prometheus's answer may be too far from it.
//
// Prometheus sums x, y, x·y and x², x being the time since the origin in
// seconds. With u = 2^-53, each x and each product is rounded by up to u, each
// sum and each operation on sums again. So its covariance Σxy - Σx·Σy/n is off by
//
//	u·(6·|center|·Σ|y| + X·Σ|y-mean| + 3·|covariance|)
//
// X being the largest |x|, and X taking the place of the center where x changes
// its sign, and its variance Σx² - (Σx)²/n by 10·u·n·X².
func (p *fit) value(l *line, f *fixed) (float64, bool) {
	covariance, variance := p.covariance/p.n, p.variance/p.n
	slope := covariance / variance // units per ms
	reach := max(math.Abs(p.start), math.Abs(p.end))
	center := math.Abs(p.center)
	if p.start*p.end < 0 {
		center = reach
	}
	magnitudes := math.Abs(p.sum)
	if f.low < 0 {
		magnitudes = p.n * f.max
	}
	spread := min(2*magnitudes, p.n*(f.high-f.low)/2)
	off := rounding * (6*center*magnitudes + reach*spread + 3*math.Abs(covariance))
	if !f.exact {
		off += math.Sqrt(p.n * variance)
	}
	slopeOff := off/variance + math.Abs(slope)*rounding*(10*p.n*reach*reach/variance+4)
	if !l.predict {
		return slope * 1000 * f.unit, slopeOff <= allowed*math.Abs(slope)
	}
	mean, ahead := p.sum/p.n, l.seconds*1000
	value := mean + slope*(ahead-p.center)
	off = slopeOff*math.Abs(ahead-p.center) +
		rounding*(6*math.Abs(mean)+6*math.Abs(slope)*(center+math.Abs(ahead)+math.Abs(ahead-p.center)))
	if !f.exact {
		off++
	}
	finite := math.Abs(value) <= math.MaxFloat64
	return value * f.unit, finite && off <= allowed*math.Abs(value)
}

// regressions fills out by Prometheus's operations.
func regressions(ts []int64, vs []float64, b *bounds, l line, out row) (points int) {
	cur := cursor{row: out}
	defer cur.flush()
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		if hi-lo < 2 {
			continue
		}
		points++
		l.at(k)
		cur.set(k, l.value(regression(ts[lo:hi], vs[lo:hi], l.origin(ts[lo], k))))
	}
	return points
}

// regression is the least-squares line through the samples: its slope per
// second, and its value at the time origin, in ms.
func regression(ts []int64, vs []float64, origin int64) (slope, intercept float64) {
	var m moments
	constant := true
	for k, v := range vs {
		constant = constant && (k == 0 || v == vs[0])
		x := float64(ts[k]-origin) / 1e3
		m.x, m.cX = kahansum.Inc(x, m.x, m.cX)
		m.y, m.cY = kahansum.Inc(v, m.y, m.cY)
		m.xy, m.cXY = kahansum.Inc(x*v, m.xy, m.cXY)
		m.x2, m.cX2 = kahansum.Inc(x*x, m.x2, m.cX2)
	}
	if constant {
		if math.IsInf(vs[0], 0) {
			return math.NaN(), math.NaN()
		}
		return 0, vs[0]
	}
	return m.line(float64(len(vs)))
}

// finiteRegression is regression for values that are not all the same, and too
// small for their sums to overflow.
func finiteRegression(ts []int64, vs []float64, origin int64) (slope, intercept float64) {
	m := finiteMoments(ts, vs, origin)
	return m.line(float64(len(vs)))
}

// eachMoment is finiteMoments, sum by sum.
func eachMoment(ts []int64, vs []float64, origin int64) moments {
	var x, y, xy, x2, cX, cY, cXY, cX2 float64
	ts = ts[:len(vs)]
	for k, v := range vs {
		t := float64(ts[k]-origin) / 1e3
		x, cX = twoSum(x, t, cX)
		y, cY = twoSum(y, v, cY)
		xy, cXY = twoSum(xy, float64(t*v), cXY)
		x2, cX2 = twoSum(x2, float64(t*t), cX2)
	}
	return moments{x, y, xy, x2, cX, cY, cXY, cX2}
}

// moments are the compensated sums of a regression.
type moments struct{ x, y, xy, x2, cX, cY, cXY, cX2 float64 }

// line is the least-squares line through the n samples that were added up.
func (m *moments) line(n float64) (slope, intercept float64) {
	x, y, xy, x2 := m.x+m.cX, m.y+m.cY, m.xy+m.cXY, m.x2+m.cX2
	slope = (xy - float64(x*y)/n) / (x2 - float64(x*x)/n)
	return slope, y/n - float64(slope*x)/n
}
