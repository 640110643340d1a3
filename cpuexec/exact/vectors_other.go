//go:build !amd64

package exact

// hasVectors says whether what works on several values an instruction can be called.
const hasVectors, hasWide = false, false

// These do as much as they can at once: nothing.

func rangeOfSome(units []uint32) (low, high uint32, n int) { return 1<<32 - 1, 0, 0 }

func extremeOfSome(vs []float64, smallest bool) (v float64, n int) { return vs[0], 0 }

// Differ tells of as many values as it can at once whether they are not the ones before: of none.
func Differ(vs []float64, memory []uint64) []uint64 { return nil }

// AddFinite adds as many values to sums as it can at once: none.
func AddFinite(val, comp, in []float64) int { return 0 }

// CanAbreast reports whether windows can be added up side by side: they are added up one by one.
func CanAbreast() bool { return false }

var Log, Log2, Log10, Acosh, Asinh, Exp, Sinh, Cosh Vector

func runningVector(vs *float64, n int, scale, unit float64, sums *int64, out *[2][8]uint64) {}

func sumsAbreast(starts *[Abreast]*float64, n int, out *Sums) {}

func variancesAbreast(starts *[Abreast]*float64, n int, out *Sums) {}

func risesAbreast(starts *[Abreast]*float64, n int, out *Sums) {}

func columnSums(rows *float64, at *int64, every, windows int, scale float64, out *int64) {}

func meanRows(rows *float64, at *int64, samples, windows int, sums *int64, columns int, scale, n float64, out *float64) {
}

func sumRows(rows *float64, at *int64, samples, windows int, n float64, out *float64) {}

func varianceRows(rows *float64, at *int64, samples, windows int, reciprocals *float64, roots int, out *float64) {
}

func resetRows(rows *float64, at *int64, samples, windows int, out *float64) {}

func largestRows(rows *float64, at *int64, samples, windows int, out *float64) {}

func smallestRows(rows *float64, at *int64, samples, windows int, out *float64) {}

func largestFewRows(rows *float64, at *int64, samples, windows int, few *float64, n int, furthest, before *float64) {
}

func smallestFewRows(rows *float64, at *int64, samples, windows int, few *float64, n int, furthest, before *float64) {
}
