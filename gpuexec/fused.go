package gpuexec

import (
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels"
)

// Fused kernels decode chunks and compute windows in one go, without storing samples
// in between. They are for windows that share none: those of dashboards over weeks,
// whose steps are longer than their windows.

// fuses reports whether a fused kernel computes the windows. Each is computed by the
// thread that has the chunk in which it begins, so that windows longer than chunks
// would leave most threads without one. It does not change a bit of the answer.
func (f function) fuses(l *cpuexec.Leaf, s Steps) bool {
	switch f.by {
	case byEnds, byAll, byRate:
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

// fusedKernel is a fused kernel, and the same for batches with XOR2 chunks.
type fusedKernel struct{ plain, mixed cuda.Function }

// fused puts a fused kernel on a stream. drop leaves out stale markers. A corrupt chunk
// is reported as DecodeSeries does.
func (k *Kernels) fused(c *cuda.Context, s cuda.Stream, f fusedKernel, b *Batch, steps Steps, drop bool, fault cuda.Pointer, base uint64, out Output, more ...any) error {
	fn := f.plain
	if b.Mixed {
		fn = f.mixed
	}
	return c.Launch(fn, blocks(b.Chunks, kernels.DecodeBlock), cuda.Size{X: kernels.DecodeBlock}, 0, s, append([]any{
		b.First, b.Tiles, b.Slab, b.Table, b.Wide, b.Since, b.Chunks, flag(drop), fault, base,
		steps.Start, steps.Interval, steps.Count, steps.Width, out.Values, out.Reads, out.Counts,
	}, more...)...)
}

// fused puts decoding batch number b and its windows on a stream.
func (j *job) fused(c *cuda.Context, s cuda.Stream, b int, d *onDevice) error {
	k, fault, base := j.x.k, j.at(j.fault), uint64(b)<<40
	drop := !j.l.Window.Func.Instant
	switch j.f.by {
	case byAll:
		return k.fused(c, s, k.fusedAll, &d.Batch, j.steps, drop, fault, base, d.out, uint32(j.f.op))
	case byRate:
		return k.fused(c, s, k.fusedRate, &d.Batch, j.steps, drop, fault, base, d.out, flag(j.f.counter), j.f.divisor(j.l.Window.Width))
	default:
		return k.fused(c, s, k.fusedEnds, &d.Batch, j.steps, drop, fault, base, d.out, uint32(j.f.ends))
	}
}
