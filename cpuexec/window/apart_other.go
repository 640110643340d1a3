//go:build !amd64

package window

import "github.com/promwarp/promwarp/cpuexec/column"

func shapes(factors, nears []float64, lo, hi, lead, trail []int32, width int64, seconds float64) int {
	return 0
}

func packedDeltas(out []float64, p *column.Packed, lo, hi []int32, factors []float64) int { return 0 }

func floatDeltas(out, vs []float64, lo, hi []int32, factors []float64) int { return 0 }
