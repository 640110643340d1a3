package launch

import (
	"cmp"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Batch is a batch of series in device memory: tiles of 32 series, each of which
// has a tile of chunks for every position.
type Batch struct {
	Slab    cuda.Pointer // the chunks' bytes
	Table   cuda.Pointer // an abi.Entry a chunk
	Wide    cuda.Pointer // an abi.SeriesChunk for each that does not fit into one
	Since   int64        // ms, what times in entries count from
	Mixed   bool         // there are XOR2 chunks
	Chunks  uint32       // a multiple of abi.TileChunks
	First   cuda.Pointer // uint32, the first tile of chunks of each tile of series, and their number
	Tiles   uint32       // of series
	KeyRows cuda.Pointer // uint64, where keys of each tile of series begin, and where they end: in rows of 32

	Columns
	Decoded cuda.Pointer // an abi.Decoded a chunk

	Drop bool // stale markers are left out
	// Fault is a uint64 that a corrupt chunk lowers to FaultBase + 256 times its number + its status.
	Fault     cuda.Pointer
	FaultBase uint64
	Out       Output // of a window kernel
}

// Columns are decoded chunks in device memory. Those of 32 neighbouring chunks lie transposed.
type Columns struct {
	Rows   cuda.Pointer // uint64 a tile: its first row
	Packed cuda.Pointer // an abi.PackedWord a tile
	Times  cuda.Pointer // int64 a place, ms
	Values cuda.Pointer // float64 a place
}

// Output is where a window kernel writes.
type Output struct {
	Values cuda.Pointer // a float64 for each lane and step, a row a lane
	Counts cuda.Pointer // an abi.SeriesCounts a lane, which is added to
}

// Steps are the windows that a window kernel computes: (Start+k*Interval-Width,
// Start+k*Interval] for step k, in ms.
type Steps struct {
	Start, Interval, Width int64
	Count                  uint32
	PerThread              uint32 // steps that one thread computes
}

// chunks puts a kernel with a thread for each chunk of a batch on the queue.
func (q Queue) chunks(k Kernel, b *Batch, params ...any) error {
	return q.Launch(k, Blocks(b.Chunks, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock}, params...)
}

// Decoder is the kernel that decodes chunks to columns, XOR2 chunks among them if they are mixed.
func Decoder(mixed bool) Kernel {
	if mixed {
		return "decode_mixed"
	}
	return "decode_series"
}

// DecodeSeries puts decoding of a batch's chunks to its columns on the queue.
func (q Queue) DecodeSeries(b *Batch) error {
	return q.chunks(Decoder(b.Mixed), b, b.Slab, b.Table, b.Wide, b.Since, b.Chunks, b.Rows, b.Packed, b.Times, b.Values, b.Decoded, b.Drop, b.Fault, b.FaultBase)
}

// PackMeasure puts saying how the decoded chunks of a batch are packed on the queue.
func (q Queue) PackMeasure(b *Batch, packs, words cuda.Pointer) error {
	return q.chunks("pack_measure", b, b.Chunks, b.Rows, b.Packed, b.Decoded, b.Times, b.Values, packs, words)
}

// PackColumns puts packing the tiles of chunks that have a word on the queue.
func (q Queue) PackColumns(b *Batch, packs, words cuda.Pointer) error {
	return q.chunks("pack_columns", b, b.Chunks, b.Rows, b.Decoded, b.Times, b.Values, packs, words)
}

// stored are the parameters of kernels over stored samples: a batch's series and chunks.
func (b *Batch) stored() []any {
	return []any{b.First, b.Tiles, b.Rows, b.Packed, b.Decoded, b.Times, b.Values}
}

// Window puts a window kernel over a batch on the queue, which has more parameters than what all
// window kernels have.
func (q Queue) Window(k Kernel, b *Batch, s Steps, more ...any) error {
	params := append(b.stored(), s.Start, s.Interval, s.Count, s.Width, s.PerThread, b.Out.Values, b.Out.Counts)
	return q.PerSeries(k, b.Tiles, s.Count, s.PerThread, append(params, more...)...)
}

// Fused puts a kernel on the queue that decodes a batch's chunks and computes windows in one.
func (q Queue) Fused(k Kernel, b *Batch, s Steps, more ...any) error {
	params := []any{b.First, b.Tiles, b.Slab, b.Table, b.Wide, b.Since, b.Chunks, b.Fault, b.FaultBase}
	params = append(params, b.Drop, s.Start, s.Interval, s.Count, s.Width, b.Out.Values, b.Out.Counts)
	return q.chunks(k, b, append(params, more...)...)
}

// Parts are the parts that groups have in a batch, in device memory, all uint32: the number of
// each group, and the first place of its part, behind the last of which is the number of places; and the
// lane of the series at each place.
type Parts struct {
	Groups, Starts, Lanes cuda.Pointer
	Count                 uint32
}

// GroupQuantile puts the quantiles of count groups on the queue. first and members
// say, both uint32, which rows of values each has. fault becomes
// abi.MixedZeros, unless it is less, where an answer is uncertain.
func (q Queue) GroupQuantile(values cuda.Pointer, steps uint32, members, first cuda.Pointer, places, count uint32, quantile float64, out, fault cuda.Pointer) error {
	parts := uint32(1)
	for parts < abi.QuantileParts && 128*parts*count <= places {
		parts *= 2
	}
	return q.PerStep("group_quantile", steps, count, parts, values, steps, members, first, count, parts, quantile, out, fault)
}

// PerSeries puts a kernel on the queue of which a thread owns a series of some tiles at `each` of count
// steps or buckets.
func (q Queue) PerSeries(k Kernel, tiles, count, each uint32, params ...any) error {
	threads := uint32(abi.WindowBlock)
	if k == "window_distance" || k == "window_recent" {
		threads = abi.OrderBlock
	}
	grid := Blocks(tiles*abi.TileChunks, threads)
	grid.Y = (count + each - 1) / each
	return q.Launch(k, grid, cuda.Size{X: threads}, params...)
}

// PerRow puts a kernel on the queue of which a warp owns a series of some tiles at `each` of count steps.
func (q Queue) PerRow(k Kernel, tiles, count, each uint32, params ...any) error {
	const warps = abi.WindowBlock / 32
	grid := cuda.Size{X: tiles * abi.TileChunks / warps, Y: (count + each - 1) / each}
	return q.Launch(k, grid, cuda.Size{X: abi.WindowBlock}, params...)
}

// Accumulate puts group_accumulate on the queue: the threads of a block share a group, or each warp has its own.
func (q Queue) Accumulate(p *Parts, steps, op uint32, share bool, values, states cuda.Pointer) error {
	grid, block := Blocks(steps, abi.RowsBlock), cuda.Size{X: abi.RowsBlock, Y: 4}
	each := block.Y // groups of a block
	if share {
		grid, block, each = Blocks(steps, abi.SharedBlock), cuda.Size{X: abi.SharedBlock, Y: abi.SharedBlock}, 1
	}
	grid.Y = min((p.Count+each-1)/each, MaxGridY)
	return q.Launch("group_accumulate", grid, block, values, steps, p.Groups, p.Starts, p.Lanes, p.Count, op, states)
}

// Rank puts group_rank on the queue, with 32 threads for a group at a step where groups are few, and with one otherwise.
func (q Queue) Rank(p *Parts, steps uint32, few bool, values cuda.Pointer, more ...any) error {
	block := cuda.Size{X: abi.RowsBlock, Y: 1}
	if few {
		block = cuda.Size{X: abi.RankSteps, Y: abi.RankRows}
	}
	grid := Blocks(steps, block.X)
	grid.Y = min(p.Count, MaxGridY)
	return q.Launch("group_rank", grid, block, append([]any{values, steps, p.Groups, p.Starts, p.Lanes, p.Count}, more...)...)
}

// PerStep puts a kernel on the queue of which a block of that many warps owns 32 steps of a group, or of a tile,
// of count.
func (q Queue) PerStep(k Kernel, steps, count, warps uint32, params ...any) error {
	grid := Blocks(steps, abi.RowsBlock)
	grid.Y = min(count, MaxGridY)
	return q.Launch(k, grid, cuda.Size{X: abi.RowsBlock, Y: warps}, params...)
}

// Results puts a kernel with a thread for each of count states on the queue.
func (q Queue) Results(k Kernel, count uint64, params ...any) error {
	return q.Launch(k, cuda.Size{X: uint32((count + abi.ResultBlock - 1) / abi.ResultBlock)}, cuda.Size{X: abi.ResultBlock}, params...)
}

// Panes are the stretches of time between neighbouring edges of windows, of which
// extremes are made once for all windows that share them; or of the first windows of
// ranges of steps, of which sums are.
type Panes struct {
	Steps int64  // of a range, each of which has Per panes; one step for extremes
	Head  int64  // ms; where that is two, the first is so long
	Per   uint32 // the window of range k begins with pane k*Per
	Count uint32 // of all
	Block uint32 // neighbouring panes that one thread goes through
	Span  uint32 // panes of a window, more than a block
}

// minPanes is the least number of steps, and of steps that a sample is in the
// windows of, for which panes are worth their memory; maxPanes is the largest number
// of panes a step.
const minPanes, maxPanes = 8, 256

// maxBlock is the largest number of panes in a block.
const maxBlock = 64

// leastSlide and mostSlide are the least and the largest number of steps whose sums a thread makes of one another.
const leastSlide, mostSlide = 32, 256

// PanesOf cuts the windows of s into panes, for their extremes or their sums. It reports
// false where that is not worth it. It must depend on nothing else: a mean's last bits do
// on how it is made.
func PanesOf(s Steps, sums bool) (p Panes, ok bool) {
	if s.Interval <= 0 || s.Count < minPanes || s.Width/s.Interval < minPanes || s.Width/s.Interval > maxPanes*int64(s.Count) {
		return p, false
	}
	p.Steps, p.Per, p.Block = 1, 1, maxBlock
	if sums {
		p.Steps, p.Block = int64(min(max(s.Count/16, leastSlide), mostSlide))&^(abi.WindowLine-1), 1
	}
	interval := p.Steps * s.Interval
	p.Head, p.Span = s.Width%interval, uint32(s.Width/interval)
	if p.Head > 0 {
		p.Per, p.Span = 2, 2*p.Span+1
	}
	p.Count = p.Per*((s.Count-1)/uint32(p.Steps)) + p.Span
	p.Block = max(1, min(p.Span/2, p.Block))
	return p, p.Count/p.Block < MaxGridY
}

// Bytes is the memory that the panes of a tile of series take, for each of the
// suffixes and the prefixes, if one takes each bytes.
func (p *Panes) Bytes(each int) int { return int(p.Count) * abi.TileChunks * each }

// WindowPanes puts the function op of windows that are cut into panes on the queue.
// suffix and prefix have p.Bytes for each tile; sums of panes need the first.
func (q Queue) WindowPanes(b *Batch, s Steps, p *Panes, op uint32, suffix, prefix cuda.Pointer) error {
	params := append(b.stored(), s.Start-s.Width, p.Steps*s.Interval, p.Head, p.Per, p.Count)
	if p.Steps > 1 {
		s.PerThread = uint32(p.Steps)
		return cmp.Or(q.PerSeries("window_totals", b.Tiles, p.Count, 1, append(params, suffix)...),
			q.Window("window_slide", b, s, p.Per, p.Count, p.Span, op, suffix))
	}
	return cmp.Or(q.PerSeries("window_panes", b.Tiles, p.Count, p.Block, append(params, p.Block, op, suffix, prefix)...),
		q.Window("window_join", b, s, p.Per, p.Count, p.Block, p.Span, op, suffix, prefix))
}
