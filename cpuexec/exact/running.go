package exact

import "math"

// Running are the sums of a series' values up to each sample, as integers: multiples of a unit, a power
// of two that divides all values. The sum of a window is the difference of two of them.
//
// It is Prometheus's. That adds float64s and their rounding errors, all of them multiples of the unit. No
// sum of a window reaches 2^63 units, so an addition loses 2^9 at most, and the sum of the errors is not
// rounded itself. The sum and that of its errors are then together the exact sum, which is rounded once.
type Running struct {
	upTo        []int64 // before sample i at i
	unit, scale float64 // scale is 1 / unit
}

const (
	// MostRunning is how many samples windows have at most: of more few values have sums of 63 bits.
	MostRunning = 1 << 9
	// unitBits are those of the first value in units at the first attempt: that half a value has a unit.
	unitBits = 54
	sumBits  = 63
)

// Set makes r the sums of the values from to to of vs, for windows of that many samples at most. It
// reports false where that cannot be: where one of the values is not finite, or the zero below zero,
// or they need too many bits.
func (r *Running) Set(vs []float64, from, to, samples int) bool {
	if samples > MostRunning || from == to {
		return false
	}
	_, exponent := math.Frexp(vs[from])
	exponent = unitBits - exponent
	exact, most := r.add(vs, from, to, exponent)
	_, taken := math.Frexp(float64(most) * float64(samples))
	more := sumBits - taken // bits that there are, or lack
	if more == 0 || most >= 1<<62 || !exact && more < 0 {
		return exact && more == 0
	}
	if !exact || more < 0 {
		exact, _ = r.add(vs, from, to, exponent+more)
	}
	return exact
}

// SetIntegers is Set for windows of any length over integers, whose sums are none beyond 2^53.
func (r *Running) SetIntegers(vs []float64, from, to, samples int) bool {
	if from == to || !IsInteger(vs[from]) {
		return false
	}
	exact, most := r.add(vs, from, to, 0)
	return exact && float64(most)*float64(samples) <= MaxInteger
}

// add adds up the values, times 2^exponent. It returns whether each is a multiple of the unit, and the
// largest magnitude in units.
func (r *Running) add(vs []float64, from, to, exponent int) (exact bool, most uint64) {
	if exponent < -900 || exponent > 900 {
		return false, 0
	}
	if cap(r.upTo) <= to {
		r.upTo = make([]int64, to+to/4+1)
	}
	r.upTo = r.upTo[:to+1]
	r.unit, r.scale = powerOfTwo(-exponent), powerOfTwo(exponent)
	vs, upTo := vs[from:to], r.upTo[from+1:to+1]
	r.upTo[from] = 0
	sum, odd, n := int64(0), uint64(0), 0
	if hasWide && len(vs) >= 8 {
		n = len(vs) &^ 7
		var lanes [2][8]uint64
		runningVector(&vs[0], n, r.scale, r.unit, &upTo[0], &lanes)
		sum = upTo[n-1]
		for i := range lanes[0] {
			odd, most = odd|lanes[0][i], max(most, lanes[1][i])
		}
	}
	for i, v := range vs[n:] {
		x := int64(v * r.scale)
		odd |= math.Float64bits(float64(x)*r.unit) ^ math.Float64bits(v)
		most = max(most, uint64(max(x, -x)))
		sum += x
		upTo[n+i] = sum
	}
	return odd == 0, most
}

// Sum is the sum of the values lo to hi.
func (r *Running) Sum(lo, hi int32) float64 { return float64(r.upTo[hi]-r.upTo[lo]) * r.unit }
