package window

import (
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/cpuexec/neon"
)

// hasVectors says whether what works on several steps an instruction can be called.
func hasVectors() bool { return cpu.ARM64.HasASIMD }

func packedIncreasesVector(out *float64, units *uint32, lo, hi *int32, factors, near *float64, n int, base, unit, tiny float64) int {
	return neon.PackedIncreases(out, units, lo, hi, factors, near, n, base, unit, tiny)
}

func floatIncreasesVector(out, vs *float64, lo, hi *int32, factors, near *float64, n int, tiny float64) int {
	return neon.FloatIncreases(out, vs, lo, hi, factors, near, n, tiny)
}

func packedDeltasVector(out *float64, units *uint32, lo, hi *int32, factors *float64, n int, base, unit float64) int {
	return neon.PackedDeltas(out, units, lo, hi, factors, n, base, unit)
}

func floatDeltasVector(out, vs *float64, lo, hi *int32, factors *float64, n int) int {
	return neon.FloatDeltas(out, vs, lo, hi, factors, n)
}

func packedLastVector(out *float64, units *uint32, hi *int32, n int, base, unit float64) int {
	return neon.PackedLast(out, units, hi, n, base, unit)
}

func packedPairsVector(out *float64, units *uint32, hi *int32, seconds *float64, n int, base, unit float64) int {
	return neon.PackedPairs(out, units, hi, seconds, n, base, unit)
}

func extrapolationsVector(factors, nears *float64, lo, hi *int32, n int, c *[6]float64, times, plus float64) int {
	return neon.Extrapolations(factors, nears, lo, hi, n, c, times, plus)
}

func spreadVector(lo, hi *int32, n int) (least, most int32, total int64) {
	return neon.Spread(lo, hi, n)
}

func addSamplesVector(all, fresh *int64, lo, hi, seen *int32, n int, used int64) {
	neon.AddSamples(all, fresh, lo, hi, seen, n, used)
}

// filled tells which of up to 64 windows have so many samples or more.
func filled(lo, hi []int32, samples int32) uint64 { return filledEach(lo, hi, samples) }
