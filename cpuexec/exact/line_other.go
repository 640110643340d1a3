//go:build !amd64

package exact

// finiteMoments are the moments of samples too small for their sums to overflow, with
// times in seconds since the origin, in ms.
func finiteMoments(ts []int64, vs []float64, origin int64) moments { return eachMoment(ts, vs, origin) }
