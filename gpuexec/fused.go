package gpuexec

import (
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Fused kernels decode chunks and compute windows in one go, without storing samples
// in between. They are for windows that share none: those of dashboards over weeks,
// whose steps are longer than their windows.

// fuses reports whether a fused kernel computes the windows. Each is computed by the
// thread that has the chunk in which it begins, so that windows longer than chunks
// would leave most threads without one. It does not change a bit of the answer.
func (f function) fuses(l *cpuexec.Leaf, s launch.Steps) bool {
	switch f.by {
	case byEnds, byOver, byRate:
	default:
		return false
	}
	return (s.Count == 1 || s.Width <= s.Interval) && s.Width <= int64(fusedWidest*float64(chunkSpan(l)))
}

// fusedWidest is the longest window of a fused kernel, in chunks. A test changes it.
var fusedWidest = 1.0

// chunkSpan is how long a chunk is on average, in ms, by those of some series.
func chunkSpan(l *cpuexec.Leaf) int64 {
	var span, chunks int64
	for cs := range someSeries(l) {
		if len(cs) > 0 {
			span += cs[len(cs)-1].MaxT - cs[0].MinT
			chunks += int64(len(cs))
		}
	}
	return span / max(chunks, 1)
}

// fused puts decoding batch number n and its windows on a stream. A corrupt chunk is reported
// as DecodeSeries does.
func (j *job) fused(c *cuda.Context, s cuda.Stream, n int, d *onDevice) error {
	b, out := &d.Batch, d.out
	p := launch.FusedParameters{
		First: b.First, Tiles: b.Tiles, Slab: b.Slab, Entries: b.Table, Wide: b.Wide, Since: b.Since, Count: b.Chunks,
		Drop: !j.l.Window.Func.Instant, Fault: j.at(j.fault), FaultBase: uint64(n) << 40,
		Start: j.steps.Start, Interval: j.steps.Interval, Steps: j.steps.Count, Width: j.steps.Width,
		Out: out.Values, Reads: out.Reads, Counts: out.Counts,
	}
	return fusedKernel(p, j.f, j.f.divisor(j.l.Window.Width), b.Mixed).Launch(j.x.k.On(c, s), launch.Blocks(b.Chunks, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock})
}

// launcher is a kernel with its parameters.
type launcher interface {
	Launch(q launch.Queue, grid, block cuda.Size) error
}

// fusedKernel is the fused kernel of a window function: that for batches with XOR2 chunks if
// there are any. seconds divides the result unless it is 0.
func fusedKernel(p launch.FusedParameters, f function, seconds float64, mixed bool) launcher {
	switch {
	case f.by == byOver && mixed:
		return &launch.FusedOverMixed{FusedParameters: p, Op: f.op}
	case f.by == byOver:
		return &launch.FusedOver{FusedParameters: p, Op: f.op}
	case f.by == byRate && mixed:
		return &launch.FusedRateMixed{FusedParameters: p, Counter: f.counter, Seconds: seconds}
	case f.by == byRate:
		return &launch.FusedRate{FusedParameters: p, Counter: f.counter, Seconds: seconds}
	case mixed:
		return &launch.FusedEndsMixed{FusedParameters: p, Kind: f.ends}
	default:
		return &launch.FusedEnds{FusedParameters: p, Kind: f.ends}
	}
}
