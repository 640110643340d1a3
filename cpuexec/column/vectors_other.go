//go:build !amd64

package column

// hasVectors says whether what works on several values an instruction can be called.
const hasVectors = false

func sinceLate(out []float64, to []int32, before int32, late []uint16, every, since, interval int64) int {
	return 0
}

func apartLate(out []float64, to []int32, late []uint16, every int64) int { return 0 }
