package exact

import "golang.org/x/sys/cpu"

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// hasWide says whether these may be of 64 bytes.
var hasWide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ

// rangeVector is Range for n units, a positive multiple of 8.
//
//go:noescape
func rangeVector(units *uint32, n int) (low, high uint32)

// sumsVector is AddFinite for n values, a positive multiple of 4.
//
//go:noescape
func sumsVector(val, comp, in *float64, n int) int

// runningVector is Running.add for n values, a positive multiple of 8. In out are, of each
// lane, 0 where all values were multiples of the unit, and the largest magnitude.
//
//go:noescape
func runningVector(vs *float64, n int, scale, unit float64, sums *int64, out *[2][8]uint64)

// What follows adds up n samples, at least one, of each window: see AddAbreast and those beside it.

//go:noescape
func sumsAbreast(starts *[Abreast]*float64, n int, out *Sums)

//go:noescape
func variancesAbreast(starts *[Abreast]*float64, n int, out *Sums)

//go:noescape
func risesAbreast(starts *[Abreast]*float64, n int, out *Sums)

// What follows does so of many windows; see Rows.

//go:noescape
func columnSums(rows *float64, at *int64, every, windows int, scale float64, out *int64)

//go:noescape
func meanRows(rows *float64, at *int64, samples, windows int, sums *int64, columns int, scale, n float64, out *float64)

//go:noescape
func sumRows(rows *float64, at *int64, samples, windows int, n float64, out *float64)

//go:noescape
func varianceRows(rows *float64, at *int64, samples, windows int, reciprocals *float64, roots int, out *float64)

//go:noescape
func resetRows(rows *float64, at *int64, samples, windows int, out *float64)

//go:noescape
func largestRows(rows *float64, at *int64, samples, windows int, out *float64)

//go:noescape
func smallestRows(rows *float64, at *int64, samples, windows int, out *float64)

//go:noescape
func largestFewRows(rows *float64, at *int64, samples, windows int, few *float64, n int, furthest, before *float64)

//go:noescape
func smallestFewRows(rows *float64, at *int64, samples, windows int, few *float64, n int, furthest, before *float64)

// These are Extreme of n values, a positive multiple of 16.

//go:noescape
func largestVector(vs *float64, n int) float64

//go:noescape
func smallestVector(vs *float64, n int) float64

// What follows are functions of package math; see Vector.

func Log(vs *float64, n int) (left uint64)
func Log2(vs *float64, n int) (left uint64)
func Log10(vs *float64, n int) (left uint64)
func Acosh(vs *float64, n int) (left uint64)
func Asinh(vs *float64, n int) (left uint64)
func Exp(vs *float64, n int) (left uint64)
func Sinh(vs *float64, n int) (left uint64)
func Cosh(vs *float64, n int) (left uint64)

// extremeOfSome is Extreme of the first n values, n a multiple of 16.
func extremeOfSome(vs []float64, smallest bool) (v float64, n int) {
	if n = len(vs) &^ 15; n == 0 || !hasVectors {
		return vs[0], 0
	}
	if smallest {
		return smallestVector(&vs[0], n), n
	}
	return largestVector(&vs[0], n), n
}

// CanAbreast reports whether windows can be added up side by side.
func CanAbreast() bool { return hasVectors }

// differVector is Differ of n values, a positive multiple of 64, and the one before them.
//
//go:noescape
func differVector(befores *float64, n int, out *uint64, nan *bool)

// Differ returns words that tell of values, bit i of word w of value 64w+i+1, whether they are not the ones
// before: as many as vectors make, in memory, and none where a value is NaN.
func Differ(vs []float64, memory []uint64) []uint64 {
	words, nan := max(0, len(vs)-1)/64, false
	if words == 0 || !hasWide {
		return nil
	}
	memory = append(memory[:0], make([]uint64, words)...)
	if differVector(&vs[0], 64*words, &memory[0], &nan); nan {
		return memory[:0]
	}
	return memory
}

// rangeOfSome returns the least and the largest of the first n of the units, n a multiple of 8.
func rangeOfSome(units []uint32) (low, high uint32, n int) {
	if n = len(units) &^ 7; n == 0 || !hasVectors {
		return 1<<32 - 1, 0, 0
	}
	low, high = rangeVector(&units[0], n)
	return low, high, n
}

// AddFinite adds values to sums and their rounding errors to comp, four at a time,
// as long as the errors are finite. It returns how many it has added.
func AddFinite(val, comp, in []float64) int {
	n := len(in) &^ 3
	if n == 0 || !hasVectors {
		return 0
	}
	_, _ = val[n-1], comp[n-1]
	return sumsVector(&val[0], &comp[0], &in[0], n)
}
