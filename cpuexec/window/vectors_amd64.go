package window

import (
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/cpuexec/column"
)

// hasVectors says whether what works on several steps an instruction can be called. It is a function so
// that functions, which kernels number, are defined in the order of their files.
func hasVectors() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

// These do so for n steps, a positive multiple of 4.

//go:noescape
func packedIncreasesVector(out *float64, units *uint32, lo, hi *int32, factors, near *float64, n int, base, unit, least float64) int

//go:noescape
func floatIncreasesVector(out, vs *float64, lo, hi *int32, factors, near *float64, n int, least float64) int

//go:noescape
func packedLastVector(out *float64, units *uint32, hi *int32, n int, base, unit float64) int

//go:noescape
func packedPairsVector(out *float64, units *uint32, hi *int32, seconds *float64, n int, base, unit float64)

// packedIncreases fills out with the increases between packed samples lo[k] and
// hi[k]-1 times factors[k], four at a time, as long as there are two samples and the
// first is beyond near[k] times the increase, and least more. It returns how many it has filled in.
func packedIncreases(out []float64, p *column.Packed, lo, hi []int32, factors, near []float64, least float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _, _, _ = lo[n-1], hi[n-1], factors[n-1], near[n-1], p.Units[:hi[n-1]]
	return packedIncreasesVector(&out[0], &p.Units[0], &lo[0], &hi[0], &factors[0], &near[0], n, p.Base, p.Unit, least)
}

// floatIncreases is packedIncreases for samples that are not packed.
func floatIncreases(out, vs []float64, lo, hi []int32, factors, near []float64, least float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _, _, _ = lo[n-1], hi[n-1], factors[n-1], near[n-1], vs[:hi[n-1]]
	return floatIncreasesVector(&out[0], &vs[0], &lo[0], &hi[0], &factors[0], &near[0], n, least)
}

// packedLast fills out with packed samples hi[k]-1, four at a time, as long as there
// are such. It returns how many it has filled in.
func packedLast(out []float64, p *column.Packed, hi []int32) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _ = hi[n-1], p.Units[:hi[n-1]]
	return packedLastVector(&out[0], &p.Units[0], &hi[0], n, p.Base, p.Unit)
}

// packedPairs fills out with lastPair of a counter of packed samples hi[k]-2 and hi[k]-1,
// four at a time. Each hi[k] must be 2 or more. It returns how many it has filled in.
func packedPairs(out []float64, p *column.Packed, hi []int32, seconds []float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _ = hi[n-1], seconds[n-1], p.Units[hi[0]-2:hi[n-1]]
	packedPairsVector(&out[0], &p.Units[0], &hi[0], &seconds[0], n, p.Base, p.Unit)
	return n
}
