package gpuexec

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels"
)

// Batch is a batch of series in device memory: tiles of 32 series, each of which
// has a tile of chunks for every position.
type Batch struct {
	Slab   cuda.Pointer // the chunks' bytes
	Refs   cuda.Pointer // a kernels.ChunkRef a chunk
	Chunks uint32       // a multiple of kernels.TileChunks
	First  cuda.Pointer // uint32, the first tile of chunks of each tile of series, and their number
	Tiles  uint32       // of series

	Columns
	Decoded cuda.Pointer // a kernels.Decoded a chunk
}

// Steps are the windows that a window kernel computes: (Start+k*Interval-Width,
// Start+k*Interval] for step k, in ms.
type Steps struct {
	Start, Interval, Width int64
	Count                  uint32
	Stretch                uint32 // steps that one thread computes
}

// DecodeSeries puts decoding of a batch's chunks to its columns on a stream.
// drop leaves out stale markers. A corrupt chunk lowers the uint64 at fault to
// base + 256 times its number + its status.
func (k *Kernels) DecodeSeries(c *cuda.Context, s cuda.Stream, b *Batch, drop bool, fault cuda.Pointer, base uint64) error {
	flag := uint32(0)
	if drop {
		flag = 1
	}
	return c.Launch(k.decodeSeries, blocks(b.Chunks, kernels.DecodeBlock), cuda.Size{X: kernels.DecodeBlock}, 0, s,
		b.Slab, b.Refs, b.Chunks, b.Rows, b.Times, b.Values, b.Decoded, flag, fault, base)
}

// WindowEnds puts a window function of the first and the last sample on a stream.
// out gets a float64 for each place of a tile and step, counts a
// kernels.SeriesCounts a place.
func (k *Kernels) WindowEnds(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f kernels.Ends, seconds float64, out, counts cuda.Pointer) error {
	return c.Launch(k.windowEnds, stretches(b, steps), cuda.Size{X: kernels.WindowBlock}, 0, s,
		b.First, b.Tiles, b.Rows, b.Decoded, b.Times, b.Values,
		steps.Start, steps.Interval, steps.Count, steps.Width, steps.Stretch, uint32(f), seconds, out, counts)
}

// WindowAll puts a window function of all samples on a stream.
func (k *Kernels) WindowAll(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f kernels.Operator, out, counts cuda.Pointer) error {
	return c.Launch(k.windowAll, stretches(b, steps), cuda.Size{X: kernels.WindowBlock}, 0, s,
		b.First, b.Tiles, b.Rows, b.Decoded, b.Times, b.Values,
		steps.Start, steps.Interval, steps.Count, steps.Width, steps.Stretch, uint32(f), out, counts)
}

func stretches(b *Batch, steps Steps) cuda.Size {
	grid := blocks(b.Tiles*kernels.TileChunks, kernels.WindowBlock)
	grid.Y = (steps.Count + steps.Stretch - 1) / steps.Stretch
	return grid
}

// Parts are the parts that groups have in a batch, in device memory: the number of
// each group, and the first place of its part, both uint32. Behind the last of the
// latter is the number of places.
type Parts struct {
	Groups, Starts cuda.Pointer
	Count          uint32
	Places         uint32 // of the batch
}

// fewSeries is the most series of a group in a batch, on average, for group_fold.
const fewSeries = 8

// GroupFold puts adding a batch's values to the states of its groups on a stream.
func (k *Kernels) GroupFold(c *cuda.Context, s cuda.Stream, values cuda.Pointer, steps uint32, p Parts, op kernels.Operator, states cuda.Pointer) error {
	grid := blocks(steps, kernels.FoldBlock)
	grid.Y = min(p.Count, maxGridY)
	f := k.foldSquares
	if p.Places <= fewSeries*p.Count {
		f = k.groupFold
	}
	return c.Launch(f, grid, cuda.Size{X: kernels.FoldBlock}, 0, s,
		values, steps, p.Groups, p.Starts, p.Count, uint32(op), states)
}

// GroupResult puts the values of count states on a stream.
func (k *Kernels) GroupResult(c *cuda.Context, s cuda.Stream, states cuda.Pointer, count uint64, op kernels.Operator, out cuda.Pointer) error {
	return c.Launch(k.groupResult, cuda.Size{X: uint32((count + kernels.ResultBlock - 1) / kernels.ResultBlock)}, cuda.Size{X: kernels.ResultBlock}, 0, s,
		states, count, uint32(op), out)
}
