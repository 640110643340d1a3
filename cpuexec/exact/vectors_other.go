//go:build !amd64

package exact

// hasVectors says whether what works on several values an instruction can be called.
const hasVectors = false

// These do as much as they can at once: nothing.

func rangeOfSome(units []uint32) (low, high uint32, n int) { return 1<<32 - 1, 0, 0 }

func extremeOfSome(vs []float64, smallest bool) (v float64, n int) { return vs[0], 0 }

// AddFinite adds as many values to sums as it can at once: none.
func AddFinite(val, comp, in []float64) int { return 0 }

// CanAbreast reports whether windows can be added up side by side: they are added up one by one.
func CanAbreast() bool { return false }

func sumsAbreast(vs *float64, lo *[Abreast]int32, n int, out *Sums) {}

func variancesAbreast(vs *float64, lo *[Abreast]int32, n int, out *Sums) {}

func squaresAbreast(vs *int64, lo *[Abreast]int32, n int, out *Sums, ts *int64, origins *[Abreast]int64) {
}

func productsAbreast(vs *float64, lo *[Abreast]int32, n int, out *Sums, ts *int64, origins *[Abreast]int64) {
}

func sumRows(rows *float64, at *int64, samples, windows int, n float64, out *float64) {}

func timeRows(rows *float64, at *int64, samples, windows int, t *Times) {}

func lineRows(rows *float64, at *int64, samples, windows int, t *Times, slopes, intercepts *float64) {
}

func varianceRows(rows *float64, at *int64, samples, windows int, out *float64) {}

func resetRows(rows *float64, at *int64, samples, windows int, out *float64) {}

func largestRows(rows *float64, at *int64, samples, windows int, out *float64) {}

func smallestRows(rows *float64, at *int64, samples, windows int, out *float64) {}

func largestFewRows(rows *float64, at *int64, samples, windows int, few *float64, n int, furthest, before *float64) {
}

func smallestFewRows(rows *float64, at *int64, samples, windows int, few *float64, n int, furthest, before *float64) {
}
