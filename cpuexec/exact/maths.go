package exact

import "math/bits"

// Vector is a function of Go's package math of four values at a time, with its bits. It replaces n values,
// a positive multiple of 4 of up to 64. It leaves NaN and the like, and values that Go treats in other
// ways, as they are, and returns a bit for each of them.
type Vector func(vs *float64, n int) (left uint64)

// All returns what replaces up to 64 values by those of plain, which is the same function of one value.
// It is nil where there are no vectors.
func (v Vector) All(plain func(v float64) float64) func(vs []float64) {
	if v == nil || !hasVectors {
		return nil
	}
	return func(vs []float64) {
		n := len(vs) &^ 3
		left := uint64(1)<<len(vs) - uint64(1)<<n
		if n > 0 {
			left |= v(&vs[0], n)
		}
		for ; left != 0; left &= left - 1 {
			k := bits.TrailingZeros64(left)
			vs[k] = plain(vs[k])
		}
	}
}
