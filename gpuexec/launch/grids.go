package launch

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
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

// DecodeSeries puts decoding of a batch's chunks to its columns on a stream.
// drop leaves out stale markers. A corrupt chunk lowers the uint64 at fault to
// base + 256 times its number + its status.
func (k *Set) DecodeSeries(c *cuda.Context, s cuda.Stream, b *Batch, drop bool, fault cuda.Pointer, base uint64) error {
	p := DecodeParameters{
		Slab: b.Slab, Entries: b.Table, Wide: b.Wide, Since: b.Since, Count: b.Chunks,
		Rows: b.Rows, Times: b.Times, Values: b.Values, Chunks: b.Decoded, Drop: drop, Fault: fault, FaultBase: base,
	}
	q, grid, block := k.On(c, s), Blocks(b.Chunks, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock}
	if b.Mixed {
		mixed := DecodeMixed{DecodeParameters: p}
		return mixed.Launch(q, grid, block)
	}
	series := DecodeSeries{DecodeParameters: p}
	return series.Launch(q, grid, block)
}

// Output is where a window kernel writes.
type Output struct {
	Values cuda.Pointer // a float64 for each place of a tile and step
	Reads  cuda.Pointer // a uint64 for each: samples in the window, and those no earlier step's window has
	Counts cuda.Pointer // an abi.SeriesCounts a place, which is added to
}

// windowGrid is the grid of a window kernel of a batch.
func windowGrid(b *Batch, steps Steps, threads uint32) cuda.Size {
	grid := Blocks(b.Tiles*abi.TileChunks, threads)
	grid.Y = (steps.Count + steps.PerThread - 1) / steps.PerThread
	return grid
}

// windowParameters are what all window kernels are given.
func windowParameters(b *Batch, steps Steps, out Output) WindowParameters {
	return WindowParameters{
		First: b.First, Tiles: b.Tiles, Rows: b.Rows, Chunks: b.Decoded, Times: b.Times, Values: b.Values,
		Start: steps.Start, Interval: steps.Interval, Steps: steps.Count, Width: steps.Width, Length: steps.PerThread,
		Out: out.Values, Reads: out.Reads, Counts: out.Counts,
	}
}

// WindowEnds puts a window function of the first or the last sample on a stream.
func (k *Set) WindowEnds(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f abi.Ends, out Output) error {
	p := WindowEnds{WindowParameters: windowParameters(b, steps, out), Kind: f}
	return p.Launch(k.On(c, s), windowGrid(b, steps, abi.WindowBlock), cuda.Size{X: abi.WindowBlock})
}

// WindowRate puts the extrapolated difference of the first and the last sample on a
// stream: that of a counter, or of a gauge. seconds divides it unless it is 0.
func (k *Set) WindowRate(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, counter bool, seconds float64, out Output) error {
	p := WindowRate{WindowParameters: windowParameters(b, steps, out), Counter: counter, Seconds: seconds}
	return p.Launch(k.On(c, s), windowGrid(b, steps, abi.WindowBlock), cuda.Size{X: abi.WindowBlock})
}

// WindowOver puts a window function of all samples on a stream.
func (k *Set) WindowOver(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f abi.Operator, out Output) error {
	p := WindowOver{WindowParameters: windowParameters(b, steps, out), Op: f}
	return p.Launch(k.On(c, s), windowGrid(b, steps, abi.WindowBlock), cuda.Size{X: abi.WindowBlock})
}

// WindowPairs puts a window function of pairs of samples on a stream.
func (k *Set) WindowPairs(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f abi.Pairs, out Output) error {
	p := WindowPairs{WindowParameters: windowParameters(b, steps, out), Kind: f}
	return p.Launch(k.On(c, s), windowGrid(b, steps, abi.WindowBlock), cuda.Size{X: abi.WindowBlock})
}

// WindowStatistic puts a window function whose state takes one sample after the other on a stream. at is the time
// of the first step itself and every how many ms there is one, which predictions
// count from.
func (k *Set) WindowStatistic(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, f abi.Statistic, param, trend float64, at plan.Grid, out Output) error {
	p := WindowStatistic{
		WindowParameters: windowParameters(b, steps, out), Kind: f, Param: param, Trend: trend, Step: at.Start, StepInterval: at.Interval,
	}
	return p.Launch(k.On(c, s), windowGrid(b, steps, abi.WindowBlock), cuda.Size{X: abi.WindowBlock})
}

// WindowOrder puts the quantile of windows on a stream, or their median absolute
// deviation. fault becomes abi.MixedZeros, unless it is less, where the answer
// is uncertain.
func (k *Set) WindowOrder(c *cuda.Context, s cuda.Stream, b *Batch, steps Steps, deviation bool, quantile float64, fault cuda.Pointer, out Output) error {
	p := WindowOrder{WindowParameters: windowParameters(b, steps, out), Distance: deviation, Quantile: quantile, Fault: fault}
	return p.Launch(k.On(c, s), windowGrid(b, steps, abi.OrderBlock), cuda.Size{X: abi.OrderBlock})
}

// StepReads puts adding up what a window kernel wrote to Output.Reads on a stream.
// all and fresh have a uint64 a step.
func (k *Set) StepReads(c *cuda.Context, s cuda.Stream, reads cuda.Pointer, tiles, steps uint32, all, fresh cuda.Pointer) error {
	// As many blocks as fill a device; each adds to the same numbers.
	const enough = 4096
	grid := Blocks(steps, abi.ReadsSteps)
	length := max(32, (tiles*grid.X+enough-1)/enough)
	grid.Y = (tiles + length - 1) / length
	p := StepReads{Reads: reads, Tiles: tiles, Steps: steps, Length: length, All: all, Fresh: fresh}
	return p.Launch(k.On(c, s), grid, cuda.Size{X: abi.TileChunks, Y: abi.ReadsSteps})
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

// GroupAccumulate puts adding a batch's values to the states of its groups on a stream.
func (k *Set) GroupAccumulate(c *cuda.Context, s cuda.Stream, values cuda.Pointer, steps uint32, p Parts, op abi.Operator, states cuda.Pointer) error {
	q, grid, block := k.On(c, s), Blocks(steps, abi.AccumulateBlock), cuda.Size{X: abi.AccumulateBlock}
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

// GroupRank puts offering a batch's values to the heaps of its groups on a stream.
// base is the number of its first place.
func (k *Set) GroupRank(c *cuda.Context, s cuda.Stream, values cuda.Pointer, steps uint32, p Parts, bottom bool, base uint32, h Heaps) error {
	grid := Blocks(steps, abi.RowsBlock)
	grid.Y = min(p.Count, MaxGridY)
	rank := GroupRank{
		Values: values, Steps: steps, Groups: p.Groups, Starts: p.Starts, Count: p.Count, Few: p.few(), Bottom: bottom, Base: base,
		Slots: h.Slots, Keys: h.Keys, Places: h.Places, Filled: h.Filled,
	}
	return rank.Launch(k.On(c, s), grid, cuda.Size{X: abi.RowsBlock})
}

// GroupQuantile puts the quantiles of count groups on a stream. first and members
// say, both uint32, which places of values each has. fault becomes
// abi.MixedZeros, unless it is less, where an answer is uncertain.
func (k *Set) GroupQuantile(c *cuda.Context, s cuda.Stream, values cuda.Pointer, steps uint32, members, first cuda.Pointer, places, count uint32, quantile float64, out, fault cuda.Pointer) error {
	grid := Blocks(steps, abi.RowsBlock)
	grid.Y = min(count, MaxGridY)
	parts := uint32(1)
	for parts < abi.QuantileParts && 128*parts*count <= places {
		parts *= 2
	}
	p := GroupQuantile{
		Values: values, Steps: steps, Members: members, First: first, Count: count, Parts: parts, Quantile: quantile, Out: out, Fault: fault,
	}
	return p.Launch(k.On(c, s), grid, cuda.Size{X: abi.RowsBlock, Y: parts})
}

// MapValues puts a map of a batch's values, in place, on a stream. With truth a
// comparison yields 1 or 0; without, remaining, a uint32 a place, is added to.
func (k *Set) MapValues(c *cuda.Context, s cuda.Stream, values cuda.Pointer, tiles, steps uint32, f abi.Map, truth bool, a, b float64, remaining cuda.Pointer) error {
	const length = 64
	grid := Blocks(tiles*abi.TileChunks, abi.WindowBlock)
	grid.Y = (steps + length - 1) / length
	p := MapValues{Values: values, Tiles: tiles, Steps: steps, Length: length, Map: f, Truth: truth, A: a, B: b, Remaining: remaining}
	return p.Launch(k.On(c, s), grid, cuda.Size{X: abi.WindowBlock})
}

// SeriesRows puts turning a batch's values into rows on a stream. rows gets a
// float64 for each place and step, and present a bitmap for each place, in whole
// uint64.
func (k *Set) SeriesRows(c *cuda.Context, s cuda.Stream, values cuda.Pointer, tiles, steps uint32, rows, present cuda.Pointer) error {
	grid := Blocks(steps, abi.RowsBlock)
	grid.Y = min(tiles, MaxGridY)
	p := SeriesRows{Values: values, Tiles: tiles, Steps: steps, Words: 2 * ((steps + 63) / 64), Rows: rows, Present: present}
	return p.Launch(k.On(c, s), grid, cuda.Size{X: abi.RowsBlock})
}

// GroupResult puts the values of count states on a stream.
func (k *Set) GroupResult(c *cuda.Context, s cuda.Stream, states cuda.Pointer, count uint64, op abi.Operator, out cuda.Pointer) error {
	p := GroupResult{States: states, Count: count, Op: op, Out: out}
	return p.Launch(k.On(c, s), cuda.Size{X: uint32((count + abi.ResultBlock - 1) / abi.ResultBlock)}, cuda.Size{X: abi.ResultBlock})
}

// Check puts adding count numbers (uint32) on a stream, if CheckKernel was loaded. sums
// gets a uint32 for each abi.CheckBlock of them.
func (k *Set) Check(c *cuda.Context, s cuda.Stream, numbers cuda.Pointer, count uint32, sums cuda.Pointer) error {
	p := Check{Numbers: numbers, Count: count, Sums: sums}
	return p.Launch(k.On(c, s), Blocks(count, abi.CheckBlock), cuda.Size{X: abi.CheckBlock})
}

// MaxGridY is the most blocks that a grid has in its second dimension.
const MaxGridY = 65535

// Blocks is the grid of one thread an item.
func Blocks(items, threads uint32) cuda.Size {
	return cuda.Size{X: (items + threads - 1) / threads}
}

// On is where launches on a stream go.
func (k *Set) On(c *cuda.Context, s cuda.Stream) Queue { return Queue{Set: k, Context: c, Stream: s} }
