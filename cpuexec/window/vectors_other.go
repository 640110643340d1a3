//go:build !amd64

package window

import "github.com/promwarp/promwarp/cpuexec/column"

// hasVectors says whether what works on several values an instruction can be called.
func hasVectors() bool { return false }

// These fill in as many steps as they can at once: none.

func packedIncreases(out []float64, p *column.Packed, lo, hi []int32, factors, near []float64, least float64) int {
	return 0
}

func floatIncreases(out, vs []float64, lo, hi []int32, factors, near []float64, least float64) int {
	return 0
}

func packedLast(out []float64, p *column.Packed, hi []int32) int                     { return 0 }
func packedPairs(out []float64, p *column.Packed, hi []int32, seconds []float64) int { return 0 }
