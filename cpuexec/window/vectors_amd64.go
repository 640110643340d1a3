package window

import (
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/cpuexec/column"
)

// hasVectors says whether what works on several steps an instruction can be called.
func hasVectors() bool { return cpu.X86.HasAVX2 && cpu.X86.HasFMA }

// These do so for n steps, a positive multiple of 4.

//go:noescape
func packedIncreasesVector(out *float64, units *uint32, lo, hi *int32, factors, near *float64, n int, base, unit, tiny float64) int

//go:noescape
func floatIncreasesVector(out, vs *float64, lo, hi *int32, factors, near *float64, n int, tiny float64) int

//go:noescape
func packedDeltasVector(out *float64, units *uint32, lo, hi *int32, factors *float64, n int, base, unit float64) int

//go:noescape
func floatDeltasVector(out, vs *float64, lo, hi *int32, factors *float64, n int) int

//go:noescape
func packedLastVector(out *float64, units *uint32, hi *int32, n int, base, unit float64) int

//go:noescape
func packedPairsVector(out *float64, units *uint32, hi *int32, seconds *float64, n int, base, unit float64) int

//go:noescape
func extrapolationsVector(factors, nears *float64, lo, hi *int32, n int, c *[6]float64, times, plus float64) int

// spreadVector is spread of n windows, a positive multiple of 8.
//
//go:noescape
func spreadVector(lo, hi *int32, n int) (least, most int32, total int64)

// packedIncreases fills out with the increases between packed samples lo[k] and
// hi[k]-1 times factors[k], four at a time, as long as there are two samples and the
// first is beyond near[k] times the increase. It returns how many it has filled in.
func packedIncreases(out []float64, p *column.Packed, lo, hi []int32, factors, near []float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _, _, _ = lo[n-1], hi[n-1], factors[n-1], near[n-1], p.Units[:hi[n-1]]
	return packedIncreasesVector(&out[0], &p.Units[0], &lo[0], &hi[0], &factors[0], &near[0], n, p.Base, p.Unit, tiny)
}

// floatIncreases is packedIncreases for samples that are not packed.
func floatIncreases(out, vs []float64, lo, hi []int32, factors, near []float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _, _, _ = lo[n-1], hi[n-1], factors[n-1], near[n-1], vs[:hi[n-1]]
	return floatIncreasesVector(&out[0], &vs[0], &lo[0], &hi[0], &factors[0], &near[0], n, tiny)
}

// packedDeltas fills out with the differences between packed samples lo[k] and hi[k]-1 times
// factors[k], four at a time, as long as there are two samples. It returns how many it has
// filled in.
func packedDeltas(out []float64, p *column.Packed, lo, hi []int32, factors []float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _, _ = lo[n-1], hi[n-1], factors[n-1], p.Units[:hi[n-1]]
	return packedDeltasVector(&out[0], &p.Units[0], &lo[0], &hi[0], &factors[0], n, p.Base, p.Unit)
}

// floatDeltas is packedDeltas for samples that are not packed.
func floatDeltas(out, vs []float64, lo, hi []int32, factors []float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _, _ = lo[n-1], hi[n-1], factors[n-1], vs[:hi[n-1]]
	return floatDeltasVector(&out[0], &vs[0], &lo[0], &hi[0], &factors[0], n)
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

// packedPairs fills out with the differences between packed samples hi[k]-2 and
// hi[k]-1, divided by seconds[k], four at a time, as long as none is negative. Each
// hi[k] must be 2 or more. It returns how many it has filled in.
func packedPairs(out []float64, p *column.Packed, hi []int32, seconds []float64) int {
	n := len(out) &^ 3
	if n == 0 || !hasVectors() {
		return 0
	}
	_, _, _ = hi[n-1], seconds[n-1], p.Units[hi[0]-2:hi[n-1]]
	return packedPairsVector(&out[0], &p.Units[0], &hi[0], &seconds[0], n, p.Base, p.Unit)
}

// extrapolations makes factors and nears of how many ms the last and the first sample of each
// window of two samples or more come after the ends of the window, which has so many ms, four
// windows at a time, as long as neither end is extrapolated by half of a distance alone. It
// returns how many it has made. seconds divides the factors; 0 stands for none.
func extrapolations(factors, nears []float64, lo, hi []int32, width int64, seconds float64) int {
	n := len(factors) &^ 3
	if n == 0 || !hasVectors() || width >= 1<<31 {
		return 0
	}
	_, _, _ = nears[n-1], lo[n-1], hi[n-1]
	c := [6]float64{float64(width), 1000, 1.0 / 1000, 1.0999, seconds, 1}
	return extrapolationsVector(&factors[0], &nears[0], &lo[0], &hi[0], n, &c, 1+slack, 1e-14)
}

// spread returns the least and the most samples of the first n windows, and how many samples are
// in all of them.
func spread(lo, hi []int32) (least, most int32, total int64, n int) {
	if n = len(hi) &^ 7; n == 0 || !hasVectors() {
		return 1<<31 - 1, 0, 0, 0
	}
	_ = lo[n-1]
	least, most, total = spreadVector(&lo[0], &hi[0], n)
	return least, most, total, n
}
