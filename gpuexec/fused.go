package gpuexec

import (
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

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
// would leave most threads without one. Fused kernels read XOR chunks alone: where there are
// XOR2 chunks, decode_mixed makes columns of all. It does not change a bit of the answer.
func (f function) fuses(l *cpuexec.Leaf, s launch.Steps) bool {
	if !slices.Contains(f.GPU.Kernel.Strategies(), abi.Fused) || l.Selection.Has(chunkenc.EncXOR2) {
		return false
	}
	return (s.Count == 1 || s.Width <= s.Interval) && s.Width <= int64(fusedWidest*float64(layout.ChunkSpan(l.Selection)))
}

// fusedWidest is the longest window of a fused kernel, in chunks. A test changes it.
var fusedWidest = 1.0

// fusedKernel is the fused kernel of a window function.
func (f function) fusedKernel(p launch.FusedParameters, w *plan.Window) launch.Launcher {
	switch f.GPU.Kernel {
	case abi.ByOperator:
		return &launch.FusedOver{FusedParameters: p, Op: abi.Operator(f.GPU.Number())}
	case abi.ByRate:
		return &launch.FusedRate{FusedParameters: p, Counter: f.counter(), Seconds: f.divisor(w.Width)}
	default:
		return &launch.FusedEnds{FusedParameters: p, Kind: abi.Ends(f.GPU.Number())}
	}
}
