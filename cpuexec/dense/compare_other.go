//go:build !amd64

package dense

// These compare as many values as can be compared at once: none.

func equalSome(_, _ []float64) (word uint64, n int)   { return 0, 0 }
func greaterSome(_, _ []float64) (word uint64, n int) { return 0, 0 }
func atLeastSome(_, _ []float64) (word uint64, n int) { return 0, 0 }
