package column

import (
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/cpuexec/neon"
)

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.ARM64.HasASIMD

func widenVector(to *float64, units *uint32, n int, base, unit float64) {
	neon.Widen(to, units, n, base, unit)
}

func sinceVector(out *float64, to *int32, late *uint16, n int, before int64, c *[6]float64) {
	neon.Since(out, to, late, n, before, c)
}
