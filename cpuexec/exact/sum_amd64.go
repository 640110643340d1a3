package exact

import "golang.org/x/sys/cpu"

// AddFinite adds values to sums and their rounding errors to comp, four at a time,
// as long as the errors are finite. It returns how many it has added.
func AddFinite(val, comp, in []float64) int {
	n := len(in) &^ 3
	if n == 0 || !cpu.X86.HasAVX2 {
		return 0
	}
	_, _ = val[n-1], comp[n-1]
	return sumsAVX2(&val[0], &comp[0], &in[0], n)
}

// sumsAVX2 is AddFinite for n values, a positive multiple of 4.
//
//go:noescape
func sumsAVX2(val, comp, in *float64, n int) int
