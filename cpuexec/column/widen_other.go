//go:build !amd64

package column

// widen fills to with base + units[i]*unit, which must be exact.
func widen(to []float64, units []uint32, base, unit float64) { widenEach(to, units, base, unit) }
