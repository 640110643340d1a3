// Package historic holds the kernels of the experiment that promwarp began with,
// written anew: means of every so many float32 values. Only a benchmark loads them.
package historic

import "embed"

//go:embed *.ptx
var files embed.FS

// The kernels. Each is in the source file, and the PTX, of its name.
const (
	Atomic = "resample_atomic"
	Blocks = "resample_blocks"
	Shared = "resample_shared"
	Runs   = "resample_runs"
)

// Block is the number of threads in a block, which Shared has a mean for each of, and
// MostRatio the largest number of values of such a mean.
const (
	Block     = 256
	MostRatio = 16
)

// PTX returns the PTX with the kernel of that name.
func PTX(kernel string) []byte {
	b, err := files.ReadFile(kernel + ".ptx")
	if err != nil {
		panic(err) // a name that is not among the constants
	}
	return b
}
