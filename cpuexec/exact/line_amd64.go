package exact

import "golang.org/x/sys/cpu"

// finiteMoments are the moments of samples too small for their sums to overflow, with
// times in seconds since the origin, in ms. The four sums are made at once.
func finiteMoments(ts []int64, vs []float64, origin int64) moments {
	if len(vs) == 0 || !cpu.X86.HasAVX2 {
		return eachMoment(ts, vs, origin)
	}
	_ = ts[len(vs)-1]
	var m [8]float64
	momentsAVX2(&ts[0], &vs[0], len(vs), origin, 1e3, &m)
	return moments{m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]}
}

// momentsAVX2 puts the sums of n samples and then their compensations into out.
//
//go:noescape
func momentsAVX2(ts *int64, vs *float64, n int, origin int64, thousand float64, out *[8]float64)
