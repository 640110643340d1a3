//go:build !amd64

package exact

// hasVectors says whether what works on several values an instruction can be called.
const hasVectors = false

// These do as much as they can at once: nothing.

func rangeOfSome(units []uint32) (low, high uint32, n int) { return 1<<32 - 1, 0, 0 }

// AddFinite adds as many values to sums as it can at once: none.
func AddFinite(val, comp, in []float64) int { return 0 }

func finiteMoments(ts []int64, vs []float64, origin int64) moments { return anyMoments(ts, vs, origin) }
