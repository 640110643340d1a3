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

// FastLine is Line by vectors, of values of those magnitudes. known are the sums of the times, if these
// are known: see Seconds.Set.
func FastLine(ts []int64, vs []float64, origin int64, of Magnitudes, known *Seconds) (slope, intercept float64) {
	if slope, intercept, ok := FlatLine(vs); ok {
		return slope, intercept
	}
	if known == nil {
		known = new(Seconds)
		known.Set(ts, origin)
	}
	far := distances(ts, origin)
	b := basesOf(len(vs), of, of.times(far))
	var p Products
	n := len(vs) &^ 7
	if n > 0 && far.Most < 1<<40 && hasVectors {
		var l lanes
		productsOf(&vs[0], &ts[0], n, origin, &b, &l)
		p.Y, p.CY = l.sum(0)
		p.XY, p.CXY = l.sum(1)
	} else {
		n = 0
	}
	for k := n; k < len(vs); k++ {
		x := float64(ts[k]-origin) / 1e3
		p.Y, p.CY = twoSum(p.Y, vs[k], p.CY)
		p.XY, p.CXY = twoSum(p.XY, float64(x*vs[k]), p.CXY)
	}
	y, ok := b.certain(0, p.Y, p.CY)
	xy, also := b.certain(1, p.XY, p.CXY)
	if !ok || !also {
		return Line(ts, vs, origin)
	}
	p = Products{Y: y, XY: xy}
	return p.Line(known, float64(len(vs)))
}

// Set makes s the sums of times in ms since an origin that Add makes from none, by vectors. What is
// lost is in the sums.
func (s *Seconds) Set(ts []int64, origin int64) {
	far, n := distances(ts, origin), len(ts)&^7
	b := basesOf(len(ts), far, far.times(far))
	*s = Seconds{}
	if n > 0 && far.Most < 1<<40 && hasVectors {
		var l lanes
		timesOf(nil, &ts[0], n, origin, &b, &l)
		s.X, s.CX = l.sum(0)
		s.X2, s.CX2 = l.sum(1)
	} else {
		n = 0
	}
	s.Add(ts[n:], origin)
	x, ok := b.certain(0, s.X, s.CX)
	x2, also := b.certain(1, s.X2, s.CX2)
	if *s = (Seconds{X: x, X2: x2}); !ok || !also {
		*s = Seconds{}
		s.Add(ts, origin)
	}
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
func (m Magnitudes) times(o Magnitudes) Magnitudes { return Magnitudes{m.Least * o.Least, m.Most * o.Most} }

// lanes are two sums of the samples of a window in four parts, each with what it has lost.
type lanes [4][4]float64

// sum returns the first sum or the second one, and what it has lost.
func (l *lanes) sum(i int) (sum, lost float64) {
	for k, part := range l[2*i] {
		sum, lost = twoSum(sum, part, lost+l[2*i+1][k])
	}
	return sum, lost
}

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
			lost := float64(n) * Rounding * unit
			if b.base[i], b.off[i] = 1.5*unit, 0; 2*lost > m.Least {
				b.off[i] = 2 * float64(n) * Rounding * lost
			}
		}
	}
	return b
}

// certain returns Prometheus's sum, of one that has lost something. It reports false where the bits are
// uncertain.
func (b *bases) certain(i int, sum, lost float64) (float64, bool) {
	low, high := sum+(lost-b.off[i]), sum+(lost+b.off[i])
	return low, low == high
}
