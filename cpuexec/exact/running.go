package exact

import "math"

// Running are the sums of a series' values up to each sample, as integers: multiples of a unit, a power
// of two that divides all values. The sum of a window is the difference of two of them.
//
// It is Prometheus's. That adds float64s and their rounding errors, all of them multiples of the unit. No
// sum of a window is beyond 2^62 units, so an addition loses 2^9 at most, and the sum of the errors is not
// rounded itself. The sum and that of its errors are then together the exact sum, which is rounded once.
type Running struct {
	upTo        []int64 // before sample i at i
	unit, scale float64 // scale is 1 / unit
	least, most uint64  // magnitudes of values that are not 0, in units
}

const (
	// MostRunning is how many samples windows have at most: of more few values have sums of 62 bits.
	MostRunning = 1 << 9
	// unitBits are those of the first value in units at the first attempt: that half a value has a unit.
	unitBits = 54
	sumBits  = 62
)

// Set makes r the sums of the values from to to of vs, for windows of so many samples at most. It reports
// false where that cannot be: where one of the values is not finite, or the zero below zero, or they
// need too many bits.
func (r *Running) Set(vs []float64, from, to, samples int) bool {
	if samples > MostRunning || from == to {
		return false
	}
	if _, exponent := math.Frexp(vs[from]); vs[from] != 0 && r.add(vs, from, to, samples, unitBits-exponent) {
		return true
	}
	_, exponent := math.Frexp(MagnitudesOf(vs[from:to]).Most * float64(samples))
	return r.add(vs, from, to, samples, sumBits-exponent)
}

// add adds up the values, times 2^exponent.
func (r *Running) add(vs []float64, from, to, samples, exponent int) bool {
	if exponent < -900 || exponent > 900 {
		return false
	}
	if cap(r.upTo) <= to {
		r.upTo = make([]int64, to+to/4+1)
	}
	r.upTo = r.upTo[:to+1]
	r.unit, r.scale = powerOfTwo(-exponent), powerOfTwo(exponent)
	vs, upTo := vs[from:to], r.upTo[from+1:to+1]
	r.upTo[from] = 0
	sum, odd, most, least, n := int64(0), uint64(0), uint64(0), uint64(math.MaxUint64), 0
	if n = len(vs) &^ 7; n == 0 || !hasWide {
		n = 0
	} else {
		var lanes [3][8]uint64
		runningVector(&vs[0], n, r.scale, &upTo[0], &lanes)
		sum = upTo[n-1]
		for i := range lanes[0] {
			odd, most, least = odd|lanes[0][i], max(most, lanes[1][i]), min(least, lanes[2][i])
		}
	}
	for i, v := range vs[n:] {
		x := int64(v * r.scale)
		odd |= math.Float64bits(float64(x)) ^ math.Float64bits(v*r.scale)
		magnitude := uint64(max(x, -x))
		most, least = max(most, magnitude), min(least, magnitude-1)
		sum += x
		upTo[n+i] = sum
	}
	r.most, r.least = most, least+1
	return odd == 0 && most <= (1<<sumBits)/uint64(samples)
}

// Sum is the sum of the values lo to hi.
func (r *Running) Sum(lo, hi int32) float64 { return float64(r.upTo[hi]-r.upTo[lo]) * r.unit }
