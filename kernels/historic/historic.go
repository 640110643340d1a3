// Package historic describes the kernels of the experiment that promwarp began with, written
// anew: means of every so many float32 values. Only a benchmark loads them.
package historic

// Block is the number of threads in a block, which Shared has a mean for each of, and
// MostRatio the largest number of values of such a mean.
const (
	Block     = 256
	MostRatio = 16
)
