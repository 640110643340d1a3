package column

import "golang.org/x/sys/cpu"

// widen fills to with base + units[i]*unit, which must be exact.
func widen(to []float64, units []uint32, base, unit float64) {
	n := len(units) &^ 7
	if !cpu.X86.HasAVX2 {
		n = 0
	}
	if n > 0 {
		_ = to[n-1]
		widenAVX2(&to[0], &units[0], n, base, unit)
	}
	widenEach(to[n:], units[n:], base, unit)
}

// widenAVX2 is widen for the n first units, a positive multiple of 8, four of them
// an instruction.
//
//go:noescape
func widenAVX2(to *float64, units *uint32, n int, base, unit float64)
