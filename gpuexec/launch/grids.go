package launch

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Batch is a batch of series in device memory: tiles of 32 series, each of which
// has a tile of chunks for every position.
type Batch struct {
	Slab   cuda.Pointer // the chunks' bytes
	Table  cuda.Pointer // an abi.Entry a chunk
	Wide   cuda.Pointer // an abi.SeriesChunk for each that does not fit into one
	Since  int64        // ms, what times in entries count from
	Mixed  bool         // there are XOR2 chunks
	Chunks uint32       // a multiple of abi.TileChunks
	First  cuda.Pointer // uint32, the first tile of chunks of each tile of series, and their number
	Tiles  uint32       // of series

	Columns
	Decoded cuda.Pointer // an abi.Decoded a chunk
}

// Columns are decoded chunks in device memory, laid out by abi.Tiles.
type Columns struct {
	Rows   cuda.Pointer // uint64 a tile
	Times  cuda.Pointer // int64 a place, ms
	Values cuda.Pointer // float64 a place
}

// Steps are the windows that a window kernel computes: (Start+k*Interval-Width,
// Start+k*Interval] for step k, in ms.
type Steps struct {
	Start, Interval, Width int64
	Count                  uint32
	PerThread              uint32 // steps that one thread computes
}

// Report says where corrupt chunks of a batch are reported: each lowers the uint64 at Fault to
// Base + 256 times its number + its status.
type Report struct {
	Fault cuda.Pointer
	Base  uint64
}

// DecodeSeries puts decoding of a batch's chunks to its columns on the queue. drop leaves out
// stale markers.
func (q Queue) DecodeSeries(b *Batch, drop bool, report Report) error {
	p := DecodeParameters{
		Slab: b.Slab, Entries: b.Table, Wide: b.Wide, Since: b.Since, Count: b.Chunks,
		Rows: b.Rows, Times: b.Times, Values: b.Values, Chunks: b.Decoded, Drop: drop, Fault: report.Fault, FaultBase: report.Base,
	}
	if b.Mixed {
		return q.Chunks(&DecodeMixed{DecodeParameters: p}, b)
	}
	return q.Chunks(&DecodeSeries{DecodeParameters: p}, b)
}

// Output is where a window kernel writes.
type Output struct {
	Values cuda.Pointer // a float64 for each place of a tile and step
	Reads  cuda.Pointer // a uint64 for each: samples in the window, and those no earlier step's window has
	Counts cuda.Pointer // an abi.SeriesCounts a place, which is added to
}

// WindowParametersOf are what all window kernels are given.
func WindowParametersOf(b *Batch, steps Steps, out Output) WindowParameters {
	return WindowParameters{
		First: b.First, Tiles: b.Tiles, Rows: b.Rows, Chunks: b.Decoded, Times: b.Times, Values: b.Values,
		Start: steps.Start, Interval: steps.Interval, Steps: steps.Count, Width: steps.Width, Length: steps.PerThread,
		Out: out.Values, Reads: out.Reads, Counts: out.Counts,
	}
}

// Launcher is a kernel with its parameters.
type Launcher interface {
	Launch(q Queue, grid, block cuda.Size) error
}

// Window puts a window kernel over a batch on the queue, with so many threads a block.
func (q Queue) Window(k Launcher, b *Batch, steps Steps, threads uint32) error {
	grid := Blocks(b.Tiles*abi.TileChunks, threads)
	grid.Y = (steps.Count + steps.PerThread - 1) / steps.PerThread
	return k.Launch(q, grid, cuda.Size{X: threads})
}

// FusedParametersOf are what all fused kernels are given. drop and report are as of
// DecodeSeries.
func FusedParametersOf(b *Batch, steps Steps, drop bool, report Report, out Output) FusedParameters {
	return FusedParameters{
		First: b.First, Tiles: b.Tiles, Slab: b.Slab, Entries: b.Table, Wide: b.Wide, Since: b.Since, Count: b.Chunks,
		Drop: drop, Fault: report.Fault, FaultBase: report.Base,
		Start: steps.Start, Interval: steps.Interval, Steps: steps.Count, Width: steps.Width,
		Out: out.Values, Reads: out.Reads, Counts: out.Counts,
	}
}

// Chunks puts a kernel with a thread for each chunk of a batch on the queue.
func (q Queue) Chunks(k Launcher, b *Batch) error {
	return k.Launch(q, Blocks(b.Chunks, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock})
}

// StepReads puts adding up what a window kernel wrote to Output.Reads on the queue.
// all and fresh have a uint64 a step.
func (q Queue) StepReads(reads cuda.Pointer, tiles, steps uint32, all, fresh cuda.Pointer) error {
	// As many blocks as fill a device; each adds to the same numbers.
	const enough = 4096
	grid := Blocks(steps, abi.ReadsSteps)
	length := max(32, (tiles*grid.X+enough-1)/enough)
	grid.Y = (tiles + length - 1) / length
	p := StepReads{Reads: reads, Tiles: tiles, Steps: steps, Length: length, All: all, Fresh: fresh}
	return p.Launch(q, grid, cuda.Size{X: abi.TileChunks, Y: abi.ReadsSteps})
}

// Parts are the parts that groups have in a batch, in device memory: the number of
// each group, and the first place of its part, both uint32. Behind the last of the
// latter is the number of places.
type Parts struct {
	Groups, Starts cuda.Pointer
	Count          uint32
	Places         uint32 // of the batch
}

// fewSeries is the most series of a group in a batch, on average, for group_accumulate.
const fewSeries = 8

// GroupAccumulate puts adding a batch's values to the states of its groups on the queue.
func (q Queue) GroupAccumulate(values cuda.Pointer, steps uint32, p Parts, op abi.Operator, states cuda.Pointer) error {
	grid, block := Blocks(steps, abi.AccumulateBlock), cuda.Size{X: abi.AccumulateBlock}
	grid.Y = min(p.Count, MaxGridY)
	few := GroupAccumulate{
		Values: values, Steps: steps, Groups: p.Groups, Starts: p.Starts, Count: p.Count, Op: op, States: states,
	}
	if p.few() {
		return few.Launch(q, grid, block)
	}
	many := GroupAccumulateSquares(few)
	return many.Launch(q, grid, block)
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

// GroupRank puts offering a batch's values to the heaps of its groups on the queue.
// base is the number of its first place.
func (q Queue) GroupRank(values cuda.Pointer, steps uint32, p Parts, bottom bool, base uint32, h Heaps) error {
	grid := Blocks(steps, abi.RowsBlock)
	grid.Y = min(p.Count, MaxGridY)
	rank := GroupRank{
		Values: values, Steps: steps, Groups: p.Groups, Starts: p.Starts, Count: p.Count, Few: p.few(), Bottom: bottom, Base: base,
		Slots: h.Slots, Keys: h.Keys, Places: h.Places, Filled: h.Filled,
	}
	return rank.Launch(q, grid, cuda.Size{X: abi.RowsBlock})
}

// GroupQuantile puts the quantiles of count groups on the queue. first and members
// say, both uint32, which places of values each has. fault becomes
// abi.MixedZeros, unless it is less, where an answer is uncertain.
func (q Queue) GroupQuantile(values cuda.Pointer, steps uint32, members, first cuda.Pointer, places, count uint32, quantile float64, out, fault cuda.Pointer) error {
	grid := Blocks(steps, abi.RowsBlock)
	grid.Y = min(count, MaxGridY)
	parts := uint32(1)
	for parts < abi.QuantileParts && 128*parts*count <= places {
		parts *= 2
	}
	p := GroupQuantile{
		Values: values, Steps: steps, Members: members, First: first, Count: count, Parts: parts, Quantile: quantile, Out: out, Fault: fault,
	}
	return p.Launch(q, grid, cuda.Size{X: abi.RowsBlock, Y: parts})
}

// MapValues puts a map of a batch's values, in place, on the queue. With truth a
// comparison yields 1 or 0; without, remaining, a uint32 a place, is added to.
func (q Queue) MapValues(values cuda.Pointer, tiles, steps uint32, f abi.Map, truth bool, a, b float64, remaining cuda.Pointer) error {
	const length = 64
	grid := Blocks(tiles*abi.TileChunks, abi.WindowBlock)
	grid.Y = (steps + length - 1) / length
	p := MapValues{Values: values, Tiles: tiles, Steps: steps, Length: length, Map: f, Truth: truth, A: a, B: b, Remaining: remaining}
	return p.Launch(q, grid, cuda.Size{X: abi.WindowBlock})
}

// SeriesRows puts turning a batch's values into rows on the queue. rows gets a
// float64 for each place and step, and present a bitmap for each place, in whole
// uint64.
func (q Queue) SeriesRows(values cuda.Pointer, tiles, steps uint32, rows, present cuda.Pointer) error {
	grid := Blocks(steps, abi.RowsBlock)
	grid.Y = min(tiles, MaxGridY)
	p := SeriesRows{Values: values, Tiles: tiles, Steps: steps, Words: 2 * ((steps + 63) / 64), Rows: rows, Present: present}
	return p.Launch(q, grid, cuda.Size{X: abi.RowsBlock})
}

// GroupResult puts the values of count states on the queue.
func (q Queue) GroupResult(states cuda.Pointer, count uint64, op abi.Operator, out cuda.Pointer) error {
	p := GroupResult{States: states, Count: count, Op: op, Out: out}
	return p.Launch(q, cuda.Size{X: uint32((count + abi.ResultBlock - 1) / abi.ResultBlock)}, cuda.Size{X: abi.ResultBlock})
}

// Check puts adding count numbers (uint32) on the queue, if CheckKernel was loaded. sums
// gets a uint32 for each abi.CheckBlock of them.
func (q Queue) Check(numbers cuda.Pointer, count uint32, sums cuda.Pointer) error {
	p := Check{Numbers: numbers, Count: count, Sums: sums}
	return p.Launch(q, Blocks(count, abi.CheckBlock), cuda.Size{X: abi.CheckBlock})
}

// MaxGridY is the most blocks that a grid has in its second dimension.
const MaxGridY = 65535

// Blocks is the grid of one thread an item.
func Blocks(items, threads uint32) cuda.Size {
	return cuda.Size{X: (items + threads - 1) / threads}
}

// On is where launches on the queue go.
func (k *Set) On(c *cuda.Context, s cuda.Stream) Queue { return Queue{Set: k, Context: c, Stream: s} }
