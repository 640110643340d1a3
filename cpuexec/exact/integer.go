package exact

import "math"

// MaxInteger is the number from which on not every integer is a float64.
const MaxInteger = 1 << 53

// IsInteger reports whether v is an integer, and not one that its neighbours may be
// missing of, or the zero below zero, which as an integer is the one above.
func IsInteger(v float64) bool {
	return v > -MaxInteger && v < MaxInteger && math.Float64bits(float64(int64(v))) == math.Float64bits(v)
}
