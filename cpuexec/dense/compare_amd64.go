package dense

import "golang.org/x/sys/cpu"

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.X86.HasAVX2

// These compare n values, a positive multiple of 4 up to 64.

//go:noescape
func equalVector(lhs, rhs *float64, n int) uint64

//go:noescape
func greaterVector(lhs, rhs *float64, n int) uint64

//go:noescape
func atLeastVector(lhs, rhs *float64, n int) uint64
