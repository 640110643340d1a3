package column

import "golang.org/x/sys/cpu"

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.X86.HasAVX2

// widenVector is widen for the n first units, a positive multiple of 8, four of them
// an instruction.
//
//go:noescape
func widenVector(to *float64, units *uint32, n int, base, unit float64)

// sinceVector is sinceLate for n steps, a positive multiple of 4. c are every, 4*interval, and since
// less 0 to 3 intervals.
//
//go:noescape
func sinceVector(out *float64, to *int32, late *uint16, n int, before int64, c *[6]float64)
