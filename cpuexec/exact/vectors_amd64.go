package exact

import "golang.org/x/sys/cpu"

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.X86.HasAVX2

// rangeVector is Range for n units, a positive multiple of 8.
//
//go:noescape
func rangeVector(units *uint32, n int) (low, high uint32)

// sumsVector is AddFinite for n values, a positive multiple of 4.
//
//go:noescape
func sumsVector(val, comp, in *float64, n int) int

// momentsVector puts the sums of n samples and then their compensations into out.
//
//go:noescape
func momentsVector(ts *int64, vs *float64, n int, origin int64, thousand float64, out *[8]float64)

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

// finiteMoments are the moments of samples too small for their sums to overflow, with
// times in seconds since the origin, in ms. The four sums are made at once.
func finiteMoments(ts []int64, vs []float64, origin int64) moments {
	if len(vs) == 0 || !hasVectors {
		return anyMoments(ts, vs, origin)
	}
	_ = ts[len(vs)-1]
	var m [8]float64
	momentsVector(&ts[0], &vs[0], len(vs), origin, 1e3, &m)
	return moments{m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]}
}
