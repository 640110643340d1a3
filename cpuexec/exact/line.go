package exact

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/kahansum"
)

// Line is Prometheus's least-squares line through the samples at ts (ms): its slope per
// second, and its value at the time origin (ms).
func Line(ts []int64, vs []float64, origin int64) (slope, intercept float64) {
	if slope, intercept, ok := flatLine(vs); ok {
		return slope, intercept
	}
	var y, cy, xy, cxy float64
	for k, v := range vs {
		y, cy = kahansum.Inc(v, y, cy)
		xy, cxy = kahansum.Inc(float64(float64(ts[k]-origin)/1e3*v), xy, cxy)
	}
	seconds := secondsOf(ts, origin)
	return seconds.line(y+cy, xy+cxy, float64(len(vs)))
}

// flatLine is the line through values that are equal, if they are.
func flatLine(vs []float64) (slope, intercept float64, ok bool) {
	switch {
	case vs[len(vs)-1] != vs[0], slices.ContainsFunc(vs, func(v float64) bool { return v != vs[0] }):
		return 0, 0, false
	case math.IsInf(vs[0], 0):
		return math.NaN(), math.NaN(), true
	}
	return 0, vs[0], true
}

// Seconds are the sums of a regression that depend on the times of samples alone: of these, in seconds
// since an origin, and of their squares.
type Seconds struct{ X, X2 float64 }

// secondsOf adds up times in ms.
func secondsOf(ts []int64, origin int64) Seconds {
	var x, c, x2, c2 float64
	for _, at := range ts {
		t := float64(at-origin) / 1e3
		x, c = twoSum(x, t, c)
		x2, c2 = twoSum(x2, float64(t*t), c2)
	}
	return Seconds{x + c, x2 + c2}
}

// line is the least-squares line of n samples whose values add up to y, and whose products with the
// seconds to xy.
func (s *Seconds) line(y, xy, n float64) (slope, intercept float64) {
	slope = (xy - float64(s.X*y)/n) / (s.X2 - float64(s.X*s.X)/n)
	return slope, y/n - float64(slope*s.X)/n
}

// FastSeconds is secondsOf by vectors.
func FastSeconds(ts []int64, origin int64) Seconds {
	far := distances(ts, origin)
	b := basesOf(len(ts), far, far.times(far))
	if x, x2, ok := b.add(ts, nil, origin); ok {
		return Seconds{x, x2}
	}
	return secondsOf(ts, origin)
}

// FastLine is Line by vectors, of values of those magnitudes. known are the seconds, if these are known.
func FastLine(ts []int64, vs []float64, origin int64, of Magnitudes, known *Seconds) (slope, intercept float64) {
	if slope, intercept, ok := flatLine(vs); ok {
		return slope, intercept
	}
	b := basesOf(len(vs), of, of.times(distances(ts, origin)))
	y, xy, ok := b.add(ts, vs, origin)
	switch {
	case !ok:
		return Line(ts, vs, origin)
	case known == nil:
		seconds := FastSeconds(ts, origin)
		known = &seconds
	}
	return known.line(y, xy, float64(len(vs)))
}

// distances are those, in seconds, of times in ms from an origin.
func distances(ts []int64, origin int64) Magnitudes {
	return Magnitudes{1e-3, max(float64(origin-ts[0]), float64(ts[len(ts)-1]-origin)) / 1e3}
}

// Magnitudes are the least and the largest of values that are finite and not 0.
type Magnitudes struct{ Least, Most float64 }

// MagnitudesOf are those of some values.
func MagnitudesOf(vs []float64) Magnitudes {
	m := Magnitudes{Extreme(vs, true), Extreme(vs, false)}
	if m.Most < 0 {
		m = Magnitudes{-m.Most, -m.Least}
	}
	if m.Least > 0 && m.Most <= math.MaxFloat64 {
		return m
	}
	m = Magnitudes{math.MaxFloat64, 0}
	for _, v := range vs {
		if v = math.Abs(v); v > 0 && v <= math.MaxFloat64 {
			m = Magnitudes{min(m.Least, v), max(m.Most, v)}
		}
	}
	return m
}

// times are those of products of values and of others.
func (m Magnitudes) times(o Magnitudes) Magnitudes {
	return Magnitudes{m.Least * o.Least, m.Most * o.Most}
}

// lanes are two sums of the samples of a window in four parts, each with what it has lost.
type lanes [4][4]float64

// bases are for compensated sums that are not added up as Prometheus adds them up. Such a sum begins
// with a base of 1.5·2^k, 2^k being four times what it can come to, or more: what rounding loses at one
// of n values is then a float of at most u·2^k, where u = 2^-53, which three operations tell. If n times
// that is less than the least value, all that is lost is a multiple of a unit, and as few as a float
// holds: nothing is lost for good, neither in this sum nor in Prometheus's, and so they round to one
// float. Else either is off the true sum by n²·u²·2^k, at most, before it becomes a float, and is certain
// where what is twice as far below and above rounds to one float.
type bases struct{ base, off [2]float64 }

// basesOf are those of two sums of n values each.
func basesOf(n int, first, second Magnitudes) (b bases) {
	for i, m := range [2]Magnitudes{first, second} {
		b.off[i] = math.Inf(1)
		if most := float64(n) * m.Most; most > 0x1p-700 && most < 0x1p1000 { // no error is too small for a float
			_, exponent := math.Frexp(most)
			unit := powerOfTwo(exponent + 2)
			lost := float64(float64(n) * Rounding * unit)
			if b.base[i], b.off[i] = 1.5*unit, 0; 2*lost > m.Least {
				b.off[i] = 2 * float64(n) * Rounding * lost
			}
		}
	}
	return b
}

// add returns the sums of values, or, if these are nil, of seconds, and of their products with seconds. It
// reports false where Prometheus's bits are uncertain.
func (b *bases) add(ts []int64, vs []float64, origin int64) (first, second float64, ok bool) {
	var l lanes
	n := len(ts) &^ 7
	switch {
	case !hasVectors || n == 0 || max(origin-ts[0], ts[len(ts)-1]-origin) >= 1<<50:
		n = 0
	case vs == nil:
		timesOf(nil, &ts[0], n, origin, b, &l)
	default:
		productsOf(&vs[0], &ts[0], n, origin, b, &l)
	}
	var sums, lost [2]float64
	for i := range sums {
		for k, part := range l[2*i] {
			sums[i], lost[i] = twoSum(sums[i], part, lost[i]+l[2*i+1][k])
		}
	}
	for k := n; k < len(ts); k++ {
		x := float64(ts[k]-origin) / 1e3
		v := x
		if vs != nil {
			v = vs[k]
		}
		sums[0], lost[0] = twoSum(sums[0], v, lost[0])
		sums[1], lost[1] = twoSum(sums[1], float64(x*v), lost[1])
	}
	ok = true
	for i, sum := range sums {
		sums[i] = sum + (lost[i] - b.off[i])
		ok = ok && sums[i] == sum+(lost[i]+b.off[i])
	}
	return sums[0], sums[1], ok
}
