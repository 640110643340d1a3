//go:build !amd64

package frame

// hasVectors says whether what works on several steps an instruction can be called.
const hasVectors = false

// These do as many windows as they can at once: none.

func extrapolations(factors, nears []float64, lo, hi []int32, width int64, seconds float64) int {
	return 0
}

func spread(lo, hi []int32) (least, most int32, total int64, n int) { return 1<<31 - 1, 0, 0, 0 }
