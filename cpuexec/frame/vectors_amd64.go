package frame

import "golang.org/x/sys/cpu"

// hasVectors says whether what works on several steps an instruction can be called.
var hasVectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// extrapolationsVector is extrapolations of n windows, a positive multiple of 4.
//
//go:noescape
func extrapolationsVector(factors, nears *float64, lo, hi *int32, n int, c *[6]float64, times, plus float64) int

// spreadVector is spread of n windows, a positive multiple of 8.
//
//go:noescape
func spreadVector(lo, hi *int32, n int) (least, most int32, total int64)

// extrapolations makes factors and nears of how many ms the last and the first sample of each
// window of two samples or more come after the ends of the window, which is width ms long, four
// windows at a time, as long as neither end is extrapolated by half of a distance alone. It
// returns how many it has made. seconds divides the factors; 0 stands for none.
func extrapolations(factors, nears []float64, lo, hi []int32, width int64, seconds float64) int {
	n := len(factors) &^ 3
	if n == 0 || !hasVectors || width >= 1<<31 {
		return 0
	}
	_, _, _ = nears[n-1], lo[n-1], hi[n-1]
	c := [6]float64{float64(width), 1000, 1.0 / 1000, 1.0999, seconds, 1}
	return extrapolationsVector(&factors[0], &nears[0], &lo[0], &hi[0], n, &c, 1+slack, 1e-14)
}

// spread returns the least and the most samples of the first n windows, and how many samples are
// in all of them.
func spread(lo, hi []int32) (least, most int32, total int64, n int) {
	if n = len(hi) &^ 7; n == 0 || !hasVectors {
		return 1<<31 - 1, 0, 0, 0
	}
	_ = lo[n-1]
	least, most, total = spreadVector(&lo[0], &hi[0], n)
	return least, most, total, n
}
