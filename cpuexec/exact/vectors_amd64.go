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
