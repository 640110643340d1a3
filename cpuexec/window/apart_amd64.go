package window

import "golang.org/x/sys/cpu"

// shapes makes factors and nears of windows, which have so many ms, of how long the first sample
// comes after their start, and the last before their end, four windows at a time. Of windows of
// less than two samples they mean nothing. It returns how many it has made. seconds
// divides the factors; 0 stands for none.
func shapes(factors, nears []float64, lo, hi, lead, trail []int32, width int64, seconds float64) int {
	n := len(factors) &^ 3
	if n == 0 || !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || width >= 1<<31 {
		return 0
	}
	_, _, _, _, _ = nears[n-1], lo[n-1], hi[n-1], lead[n-1], trail[n-1]
	c := [8]float64{float64(width), 1000, 1.0 / 1000, 1.0999, seconds, 1, 1.1, 0.5}
	done := 0
	if cpu.X86.HasAVX512F {
		if done = n &^ 7; done > 0 {
			shapesAVX512(&factors[0], &nears[0], &lo[0], &hi[0], &lead[0], &trail[0], done, &c, 1+slack, 1e-14)
		}
	}
	if done < n {
		shapesAVX2(&factors[done], &nears[done], &lo[done], &hi[done], &lead[done], &trail[done], n-done, &c, 1+slack, 1e-14)
	}
	return n
}

// shapesAVX2 is shapes for n windows, a positive multiple of 4.
//
//go:noescape
func shapesAVX2(factors, nears *float64, lo, hi, lead, trail *int32, n int, c *[8]float64, times, plus float64)

// shapesAVX512 is shapes for n windows, a positive multiple of 8.
//
//go:noescape
func shapesAVX512(factors, nears *float64, lo, hi, lead, trail *int32, n int, c *[8]float64, times, plus float64)
