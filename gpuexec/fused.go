package gpuexec

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// Fused kernels decode chunks and compute windows in one go, without storing samples
// in between. They are for windows that share none: those of dashboards over weeks,
// whose steps are longer than their windows.

// fuses reports whether a fused kernel computes the windows. Each is computed by the
// thread that has the chunk in which it begins, so that windows longer than chunks
// would leave most threads without one. It does not change a bit of the answer.
func (f function) fuses(l *cpuexec.Leaf, s launch.Steps) bool {
	if !slices.Contains(f.GPU.Kernel.Strategies(), abi.Fused) {
		return false
	}
	return (s.Count == 1 || s.Width <= s.Interval) && s.Width <= int64(fusedWidest*float64(layout.ChunkSpan(l.Selection)))
}

// fusedWidest is the longest window of a fused kernel, in chunks. A test changes it.
var fusedWidest = 1.0

// fusedKernel is the fused kernel of a window function: that for batches with XOR2 chunks if
// there are any.
func (f function) fusedKernel(p launch.FusedParameters, w *plan.Window, mixed bool) launch.Launcher {
	seconds, by := f.divisor(w.Width), f.GPU.Kernel
	switch {
	case by == abi.ByOperator && mixed:
		return &launch.FusedOverMixed{FusedParameters: p, Op: abi.Operator(f.GPU.Number())}
	case by == abi.ByOperator:
		return &launch.FusedOver{FusedParameters: p, Op: abi.Operator(f.GPU.Number())}
	case by == abi.ByRate && mixed:
		return &launch.FusedRateMixed{FusedParameters: p, Counter: f.counter(), Seconds: seconds}
	case by == abi.ByRate:
		return &launch.FusedRate{FusedParameters: p, Counter: f.counter(), Seconds: seconds}
	case mixed:
		return &launch.FusedEndsMixed{FusedParameters: p, Kind: abi.Ends(f.GPU.Number())}
	default:
		return &launch.FusedEnds{FusedParameters: p, Kind: abi.Ends(f.GPU.Number())}
	}
}
