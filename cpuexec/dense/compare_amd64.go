package dense

import "golang.org/x/sys/cpu"

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.X86.HasAVX2

// some is how many of the values are compared at once.
func some(lhs, rhs []float64) (n int) {
	if n = len(lhs) &^ 3; n > 0 {
		_ = rhs[n-1]
	}
	if !hasVectors {
		n = 0
	}
	return n
}

// equalSome, greaterSome and atLeastSome compare the first n values.

func equalSome(lhs, rhs []float64) (word uint64, n int) {
	if n = some(lhs, rhs); n > 0 {
		word = equalVector(&lhs[0], &rhs[0], n)
	}
	return word, n
}

func greaterSome(lhs, rhs []float64) (word uint64, n int) {
	if n = some(lhs, rhs); n > 0 {
		word = greaterVector(&lhs[0], &rhs[0], n)
	}
	return word, n
}

func atLeastSome(lhs, rhs []float64) (word uint64, n int) {
	if n = some(lhs, rhs); n > 0 {
		word = atLeastVector(&lhs[0], &rhs[0], n)
	}
	return word, n
}

// These compare n values, a positive multiple of 4 up to 64.

//go:noescape
func equalVector(lhs, rhs *float64, n int) uint64

//go:noescape
func greaterVector(lhs, rhs *float64, n int) uint64

//go:noescape
func atLeastVector(lhs, rhs *float64, n int) uint64
