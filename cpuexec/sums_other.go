//go:build !amd64

package cpuexec

// finiteSums adds as many values to sums as it can at once: none.
func finiteSums(val, comp, in []float64) int { return 0 }
