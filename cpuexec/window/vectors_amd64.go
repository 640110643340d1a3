package window

import "golang.org/x/sys/cpu"

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

// addSamplesVector is addSamples of n windows, a positive multiple of 4, with used below 1<<31.
//
//go:noescape
func addSamplesVector(all, fresh *int64, lo, hi, seen *int32, n int, used int64)

// filled tells which of up to 64 windows have so many samples or more.
func filled(lo, hi []int32, samples int32) uint64 {
	if len(hi) < 64 || !hasVectors() {
		return filledEach(lo, hi, samples)
	}
	_ = lo[63]
	return filledVector(&lo[0], &hi[0], samples)
}

// filledVector is filled of 64 windows.
//
//go:noescape
func filledVector(lo, hi *int32, samples int32) uint64
