package exact

import (
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/cpuexec/neon"
)

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.ARM64.HasASIMD

func rangeVector(units *uint32, n int) (low, high uint32) { return neon.Range(units, n) }

func sumsVector(val, comp, in *float64, n int) int { return neon.Sums(val, comp, in, n) }

func momentsVector(ts *int64, vs *float64, n int, origin int64, thousand float64, out *[8]float64) {
	neon.Moments(ts, vs, n, origin, thousand, out)
}
