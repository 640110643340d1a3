package exact

import "math"

// Magnitudes are the least and the largest of values that are finite and not 0.
type Magnitudes struct {
	Least, Most float64
	finite      bool // all values are
}

// MagnitudesOf are those of some values.
func MagnitudesOf(vs []float64) Magnitudes {
	if hasWide {
		n := len(vs) &^ 7
		most, least := uint64(0), uint64(math.MaxUint64) // the bits of the largest, and of the least less 1
		if n > 0 {
			var lanes [2][8]uint64
			magnitudesVector(&vs[0], n, &lanes)
			for i := range lanes[0] {
				most, least = max(most, lanes[0][i]), min(least, lanes[1][i])
			}
		}
		for _, v := range vs[n:] {
			magnitude := math.Float64bits(math.Abs(v))
			most, least = max(most, magnitude), min(least, magnitude-1)
		}
		if most <= math.Float64bits(math.MaxFloat64) {
			return Magnitudes{math.Float64frombits(least + 1), math.Float64frombits(most), true}
		}
	} else {
		m := Magnitudes{Extreme(vs, true), Extreme(vs, false), true}
		if m.Most < 0 {
			m.Least, m.Most = -m.Most, -m.Least
		}
		if m.Least > 0 && m.Most <= math.MaxFloat64 {
			return m
		}
	}
	m := Magnitudes{math.MaxFloat64, 0, false}
	for _, v := range vs {
		if v = math.Abs(v); v > 0 && v <= math.MaxFloat64 {
			m.Least, m.Most = min(m.Least, v), max(m.Most, v)
		}
	}
	return m
}

// times are those of products of values and of others.
func (m Magnitudes) times(o Magnitudes) Magnitudes {
	return Magnitudes{m.Least * o.Least, m.Most * o.Most, m.finite && o.finite}
}

// Reach is how far samples of windows are from the origins of these.
type Reach struct {
	Samples int     // of a window, at most
	Gap     float64 // seconds between two samples, at least
	// How far the furthest samples before and after origins are, and what the distances of a window add up
	// to, in seconds, at most.
	before, after, total float64
}

// add adds a window of samples from first to last, in ms since its origin.
func (r *Reach) add(first, last int64) {
	r.before, r.after = max(r.before, float64(-first)), max(r.after, float64(last))
}

// most is the largest distance.
func (r *Reach) most() float64 { return max(r.before, r.after) / 1e3 }

// Units are for sums of values, and of their products with distances, as integers, which are quick: four
// operations for a value and its product. All are multiples of a unit, a power of two, and no sum reaches
// 2^63 units. A value of wholeUnits or more, a float of 53 bits, is a multiple of the unit. So are the
// products, as Prometheus rounds them, but for those with samples near the origin, which are rounded to a
// multiple. Then the sum is half a unit off for each of these, at most, and certain where both ends of
// that range round to one float.
//
// Prometheus adds up floats and what each addition loses, 2^9 units at most, a multiple of the least
// product's last bit. With mostGap the sum of that has fewer bits than a float, and is not rounded itself:
// what Prometheus comes to is the sum of the products, rounded once.
type Units struct {
	scale, more    float64 // makes values multiples of the products' unit, and these of the values' unit
	off            int64   // units that the sum of products may be off
	product, value float64 // the units
	ok             bool    // so few sums are uncertain that they are worth it
}

const (
	wholeUnits = (1 << 52) * (1 + 0x1p-40)
	mostGap    = 1 << 16 // seconds
	// mostOff is where every tenth sum or so is uncertain.
	mostOff = 48
)

// Units returns those for values of the magnitudes.
func (r *Reach) Units(of Magnitudes) (u Units) {
	if !hasWide || !of.finite || r.Samples > MostRunning || !(r.Gap > 0 && r.Gap < mostGap) {
		return u
	}
	sides, most := 1.0, r.total
	if min(r.before, r.after) > 0 { // distances have two signs, and their sum says nothing
		sides, most = 2, r.most()*float64(r.Samples)
	}
	products, values := of.Most*most*(1+0x1p-40), of.Most*float64(r.Samples)*(1+0x1p-40)
	if !(min(products, values) > 0x1p-700 && max(products, values) < 0x1p900) {
		return u
	}
	_, productBits := math.Frexp(products)
	_, valueBits := math.Frexp(values)
	u = Units{
		scale: powerOfTwo(63 - productBits), more: powerOfTwo(productBits - valueBits),
		product: powerOfTwo(productBits - 63), value: powerOfTwo(valueBits - 63),
	}
	least := of.Least * u.scale
	near := sides * math.Ceil(wholeUnits/(least*r.Gap)) // samples at whose distance products have fractions
	if least*u.more >= wholeUnits && near <= 2*mostOff {
		u.off, u.ok = (int64(near)+1)/2, true
	}
	return u
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

// add returns the sums of values and of their products with others. It reports false where Prometheus's
// bits are uncertain.
func (b *bases) add(vs, xs []float64) (first, second float64, ok bool) {
	var l lanes
	n := len(vs) &^ 7
	if !hasVectors {
		n = 0
	}
	if n > 0 {
		productsOf(&vs[0], &xs[0], n, b, &l)
	}
	var sums, lost [2]float64
	for i := range sums {
		for k, part := range l[2*i] {
			sums[i], lost[i] = twoSum(sums[i], part, lost[i]+l[2*i+1][k])
		}
	}
	for k := n; k < len(vs); k++ {
		sums[0], lost[0] = twoSum(sums[0], vs[k], lost[0])
		sums[1], lost[1] = twoSum(sums[1], float64(vs[k]*xs[k]), lost[1])
	}
	ok = true
	for i, sum := range sums {
		sums[i] = sum + (lost[i] - b.off[i])
		ok = ok && sums[i] == sum+(lost[i]+b.off[i])
	}
	return sums[0], sums[1], ok
}
