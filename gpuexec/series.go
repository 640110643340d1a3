package gpuexec

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/plan"
)

// Batch is a batch of series in device memory: tiles of 32 series, each of which
// has a tile of chunks for every position.
type Batch struct {
	Slab   cuda.Pointer // the chunks' bytes
	Table  cuda.Pointer // a kernels.Entry a chunk
	Wide   cuda.Pointer // a kernels.SeriesChunk for each that does not fit into one
	Since  int64        // ms, what times in entries count from
	Mixed  bool         // there are XOR2 chunks
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
	f := k.decodeSeries
	if b.Mixed {
		f = k.decodeMixed
	}
	return c.Launch(f, blocks(b.Chunks, kernels.DecodeBlock), cuda.Size{X: kernels.DecodeBlock}, 0, s,
		b.Slab, b.Table, b.Wide, b.Since, b.Chunks, b.Rows, b.Times, b.Values, b.Decoded, flag(drop), fault, base)
}

// Output is where a window kernel writes.
type Output struct {
	Values cuda.Pointer // a float64 for each place of a tile and step
	Reads  cuda.Pointer // a uint64 for each: samples in the window, and those no earlier step's window has
	Counts cuda.Pointer // a kernels.SeriesCounts a place, which is added to
}

// window puts a window kernel on a stream. more are its parameters besides those
// that all window kernels have.
func (k *Kernels) window(c *cuda.Context, s cuda.Stream, f cuda.Function, threads uint32, b *Batch, steps Steps, out Output, more ...any) error {
	grid := blocks(b.Tiles*kernels.TileChunks, threads)
	grid.Y = (steps.Count + steps.Stretch - 1) / steps.Stretch
	return c.Launch(f, grid, cuda.Size{X: threads}, 0, s, append([]any{
		b.First, b.Tiles, b.Rows, b.Decoded, b.Times, b.Values,
		steps.Start, steps.Interval, steps.Count, steps.Width, steps.Stretch, out.Values, out.Reads, out.Counts,
	}, more...)...)
}

// WindowEnds puts a window function of the first or the last sample on a stream.
func (k *Kernels) WindowEnds(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f kernels.Ends, out Output) error {
	return k.window(c, s, k.windowEnds, kernels.WindowBlock, b, steps, out, uint32(f))
}

// WindowRate puts the extrapolated difference of the first and the last sample on a
// stream: that of a counter, or of a gauge. seconds divides it unless it is 0.
func (k *Kernels) WindowRate(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, counter bool, seconds float64, out Output) error {
	return k.window(c, s, k.windowRate, kernels.WindowBlock, b, steps, out, flag(counter), seconds)
}

// flag is a kernel's parameter that is true or false.
func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// WindowAll puts a window function of all samples on a stream.
func (k *Kernels) WindowAll(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f kernels.Operator, out Output) error {
	return k.window(c, s, k.windowAll, kernels.WindowBlock, b, steps, out, uint32(f))
}

// WindowPairs puts a window function of pairs of samples on a stream.
func (k *Kernels) WindowPairs(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f kernels.Pairs, out Output) error {
	return k.window(c, s, k.windowPairs, kernels.WindowBlock, b, steps, out, uint32(f))
}

// WindowFold puts a window function that folds samples on a stream. at is the time
// of the first step itself and every how many ms there is one, which predictions
// count from.
func (k *Kernels) WindowFold(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f kernels.Folds, param, trend float64, at plan.Grid, out Output) error {
	return k.window(c, s, k.windowFold, kernels.WindowBlock, b, steps, out, uint32(f), param, trend, at.Start, at.Interval)
}

// WindowOrder puts the quantile of windows on a stream, or their median absolute
// deviation. fault becomes kernels.MixedZeros, unless it is less, where the answer
// is uncertain.
func (k *Kernels) WindowOrder(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, deviation bool, quantile float64, fault cuda.Pointer, out Output) error {
	return k.window(c, s, k.windowOrder, kernels.OrderBlock, b, steps, out, flag(deviation), quantile, fault)
}

// StepReads puts adding up what a window kernel wrote to Output.Reads on a stream.
// all and fresh have a uint64 a step.
func (k *Kernels) StepReads(c *cuda.Context, s cuda.Stream, reads cuda.Pointer, tiles, steps uint32, all, fresh cuda.Pointer) error {
	// As many blocks as fill a device; each adds to the same numbers.
	const enough = 4096
	grid := blocks(steps, kernels.ReadsSteps)
	length := max(32, (tiles*grid.X+enough-1)/enough)
	grid.Y = (tiles + length - 1) / length
	return c.Launch(k.stepReads, grid, cuda.Size{X: kernels.TileChunks, Y: kernels.ReadsSteps}, 0, s,
		reads, tiles, steps, length, all, fresh)
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
	if p.few() {
		f = k.groupFold
	}
	return c.Launch(f, grid, cuda.Size{X: kernels.FoldBlock}, 0, s,
		values, steps, p.Groups, p.Starts, p.Count, uint32(op), states)
}

// few reports whether the groups have few series in a batch.
func (p *Parts) few() bool { return p.Places <= fewSeries*p.Count }

// Heaps are those of topk or bottomk in device memory. Group g has places for
// Slots[g+1]-Slots[g] elements at every step.
type Heaps struct {
	Slots  cuda.Pointer // uint32, one more than groups
	Keys   cuda.Pointer // float64, steps a slot
	Places cuda.Pointer // uint32, steps a slot
	Filled cuda.Pointer // uint32 a group and step, elements of the heap
}

// GroupRank puts offering a batch's values to the heaps of its groups on a stream.
// base is the number of its first place.
func (k *Kernels) GroupRank(c *cuda.Context, s cuda.Stream, values cuda.Pointer, steps uint32, p Parts, bottom bool, base uint32, h Heaps) error {
	grid := blocks(steps, kernels.RowsBlock)
	grid.Y = min(p.Count, maxGridY)
	return c.Launch(k.groupRank, grid, cuda.Size{X: kernels.RowsBlock}, 0, s,
		values, steps, p.Groups, p.Starts, p.Count, flag(p.few()), flag(bottom), base, h.Slots, h.Keys, h.Places, h.Filled)
}

// GroupQuantile puts the quantiles of count groups on a stream. first and members
// say, both uint32, which places of values each has. fault becomes
// kernels.MixedZeros, unless it is less, where an answer is uncertain.
func (k *Kernels) GroupQuantile(c *cuda.Context, s cuda.Stream, values cuda.Pointer, steps uint32, members, first cuda.Pointer, places, count uint32, quantile float64, out, fault cuda.Pointer) error {
	grid := blocks(steps, kernels.RowsBlock)
	grid.Y = min(count, maxGridY)
	parts := uint32(1)
	for parts < kernels.QuantileParts && 128*parts*count <= places {
		parts *= 2
	}
	return c.Launch(k.groupQuantile, grid, cuda.Size{X: kernels.RowsBlock, Y: parts}, 0, s,
		values, steps, members, first, count, parts, quantile, out, fault)
}

// MapValues puts a map of a batch's values, in place, on a stream. With truth a
// comparison yields 1 or 0; without, kept, a uint32 a place, is added to.
func (k *Kernels) MapValues(c *cuda.Context, s cuda.Stream, values cuda.Pointer, tiles, steps uint32, f kernels.Map, truth bool, a, b float64, kept cuda.Pointer) error {
	const length = 64
	grid := blocks(tiles*kernels.TileChunks, kernels.WindowBlock)
	grid.Y = (steps + length - 1) / length
	return c.Launch(k.mapValues, grid, cuda.Size{X: kernels.WindowBlock}, 0, s,
		values, tiles, steps, uint32(length), uint32(f), flag(truth), a, b, kept)
}

// SeriesRows puts turning a batch's values into rows on a stream. rows gets a
// float64 for each place and step, and present a bitmap for each place, in whole
// uint64.
func (k *Kernels) SeriesRows(c *cuda.Context, s cuda.Stream, values cuda.Pointer, tiles, steps uint32, rows, present cuda.Pointer) error {
	grid := blocks(steps, kernels.RowsBlock)
	grid.Y = min(tiles, maxGridY)
	return c.Launch(k.seriesRows, grid, cuda.Size{X: kernels.RowsBlock}, 0, s,
		values, tiles, steps, 2*((steps+63)/64), rows, present)
}

// GroupResult puts the values of count states on a stream.
func (k *Kernels) GroupResult(c *cuda.Context, s cuda.Stream, states cuda.Pointer, count uint64, op kernels.Operator, out cuda.Pointer) error {
	return c.Launch(k.groupResult, cuda.Size{X: uint32((count + kernels.ResultBlock - 1) / kernels.ResultBlock)}, cuda.Size{X: kernels.ResultBlock}, 0, s,
		states, count, uint32(op), out)
}
