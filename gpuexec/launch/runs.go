package launch

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Buckets are those of a resample request, as bucket.Grid has them.
type Buckets struct {
	Starts, Ends         cuda.Pointer // int64 a bucket, ms; of no use where Every is not 0
	FirstStart, FirstEnd int64        // ms
	Every                int64        // ms between neighbours, or 0
	Later                int64        // see bucket.Grid
	Count, PerThread     uint32       // of all; and those that one thread computes
	Apart                bool         // no two overlap
	Differences          bool         // runs are of differences between samples
	Since                int64        // ms; of differences, when samples begin
}

// grid is that of kernels of which a thread owns a series at PerThread buckets.
func (k *Buckets) grid(b *Batch) cuda.Size {
	grid := Blocks(b.Tiles*abi.TileChunks, abi.WindowBlock)
	grid.Y = (k.Count + k.PerThread - 1) / k.PerThread
	return grid
}

// Keyed reports whether counting runs stores the keys of their samples too. OrderKeys stores those of
// others.
func (k *Buckets) Keyed() bool { return k.Apart && !k.Differences }

// Runs are states in device memory, a field after the other.
type Runs struct {
	N      cuda.Pointer // uint32 a state: its samples, 0 where there is none
	Fields cuda.Pointer // abi.RunFields float64 a state
	Cells  uint64       // states
	Parts  uint32       // of each
}

// CountUniqs puts making the states of a batch's runs on the queue: of the series at place p and
// bucket k, state (p/32*Count+k)*32+p%32. points has a uint32 a place, to which the number of runs
// is added.
func (q Queue) CountUniqs(b *Batch, k Buckets, to Runs, points cuda.Pointer) error {
	p := CountUniqs{
		RunsParameters: runsParameters(b, k),
		Parts:          to.Parts, N: to.N, Fields: to.Fields, Cells: to.Cells, Points: points,
	}
	return p.Launch(q, k.grid(b), cuda.Size{X: abi.WindowBlock})
}

// CountKeys is CountUniqs and OrderKeys in one, for buckets that are Keyed.
func (q Queue) CountKeys(b *Batch, k Buckets, to Runs, points cuda.Pointer, o Order) error {
	p := CountKeys{
		RunsParameters: runsParameters(b, k),
		Parts:          to.Parts, N: to.N, Fields: to.Fields, Cells: to.Cells, Points: points, Keys: o.Keys, Begins: o.Begins,
	}
	return p.Launch(q, k.grid(b), cuda.Size{X: abi.WindowBlock})
}

// FusedKeys is FusedRuns and OrderKeys in one.
func (q Queue) FusedKeys(b *Batch, k Buckets, to Runs, points cuda.Pointer, o Order, report Report) error {
	p := fusedRunsParameters(b, k, to, points, report)
	return q.Chunks(&FusedKeys{FusedRunsParameters: p, Rows: b.Rows, Keys: o.Keys, Begins: o.Begins}, b)
}

// FusedRuns puts decoding the chunks of a batch and making the states of its runs in one on the
// queue, for buckets that are apart. The rest is as of CountUniqs and DecodeSeries.
func (q Queue) FusedRuns(b *Batch, k Buckets, to Runs, points cuda.Pointer, report Report) error {
	p := fusedRunsParameters(b, k, to, points, report)
	return q.Chunks(&FusedRuns{FusedRunsParameters: p}, b)
}

// fusedRunsParameters are what kernels are given that decode chunks and make the states of runs.
func fusedRunsParameters(b *Batch, k Buckets, to Runs, points cuda.Pointer, report Report) FusedRunsParameters {
	return FusedRunsParameters{
		First: b.First, Tiles: b.Tiles, Slab: b.Slab, Entries: b.Table, Wide: b.Wide, Since: b.Since, Count: b.Chunks,
		Fault: report.Fault, FaultBase: report.Base,
		Starts: k.Starts, Ends: k.Ends, FirstStart: k.FirstStart, FirstEnd: k.FirstEnd, Every: k.Every, Later: k.Later, Buckets: k.Count,
		Parts: to.Parts, N: to.N, Fields: to.Fields, Cells: to.Cells, Points: points,
	}
}

// Made is an aggregate of runs: one that is made of their states, or abi.Found.
type Made struct {
	abi.Aggregate
	Found cuda.Pointer // a float64 a state
}

// Order is what order statistics of a batch's runs are made of.
type Order struct {
	Keys   cuda.Pointer // uint64 a place of the batch's columns
	Begins cuda.Pointer // uint32 a state
}

// OrderKeys puts making the keys of a batch's samples, or of differences, on the queue.
func (q Queue) OrderKeys(b *Batch, k Buckets, to Order) error {
	p := OrderKeys{RunsParameters: runsParameters(b, k), Keys: to.Keys, Begins: to.Begins}
	return p.Launch(q, k.grid(b), cuda.Size{X: abi.WindowBlock})
}

// RunOrder puts order statistics of a batch's runs on the queue: quantiles has a float64 for each,
// negative for the number of different values; out has of.Cells float64 for each. fault becomes
// abi.LongRun, unless it is less, where a run is too long.
func (q Queue) RunOrder(b *Batch, buckets uint32, of Runs, o Order, quantiles cuda.Pointer, statistics uint32, out, fault cuda.Pointer) error {
	length := (buckets + MaxGridY - 1) / MaxGridY
	p := RunOrder{
		N: of.N, Begins: o.Begins, Keys: o.Keys, Rows: b.Rows, First: b.First, Buckets: buckets, Length: length,
		Quantiles: quantiles, Statistics: statistics, Out: out, Cells: of.Cells, Fault: fault,
	}
	return p.Launch(q, cuda.Size{X: b.Tiles, Y: (buckets + length - 1) / length}, cuda.Size{X: abi.RowsBlock})
}

// GroupRuns are the runs of groups over all batches of a job, of which places and tiles are counted
// on.
type GroupRuns struct {
	N, Begins, Keys cuda.Pointer // as of Runs and Order
	TileRows        cuda.Pointer // uint64 a tile of series: its first row of keys
	Members, First  cuda.Pointer // uint32: the places of each group, and where they begin
	Groups, Places  uint32
	Buckets         uint32
	GroupN          cuda.Pointer // uint32 a group and bucket: samples
}

// groupOrderLeast is the most places of a group, on average, for the smallest blocks, with little shared
// memory.
const groupOrderLeast = 64

// GroupOrder puts quantiles of the values of groups on the queue: quantiles has a float64 for each,
// and out a float64 for each of them, each group, and each bucket.
func (q Queue) GroupOrder(r GroupRuns, quantiles cuda.Pointer, statistics uint32, out cuda.Pointer) error {
	p := GroupOrderParameters{
		N: r.N, Begins: r.Begins, Keys: r.Keys, TileRows: r.TileRows, Members: r.Members, First: r.First, Groups: r.Groups,
		Buckets: r.Buckets, Quantiles: quantiles, Statistics: statistics, GroupN: r.GroupN, Out: out,
	}
	if r.few() {
		return (&GroupOrderFew{p}).Launch(q, r.grid(), r.block())
	}
	return (&GroupOrder{p}).Launch(q, r.grid(), r.block())
}

// GroupDistinct puts the numbers of different values of groups on the queue: out has a float64 for
// each group and bucket.
func (q Queue) GroupDistinct(r GroupRuns, out cuda.Pointer) error {
	p := GroupDistinct{
		N: r.N, Begins: r.Begins, Keys: r.Keys, TileRows: r.TileRows, Members: r.Members, First: r.First, Groups: r.Groups,
		Buckets: r.Buckets, GroupN: r.GroupN, Out: out,
	}
	return p.Launch(q, r.grid(), r.block())
}

// ValueKeys puts making keys of float64 values, one a run of a batch, on the queue: each run has one
// key in a row of its bucket, as GroupRuns has them.
func (q Queue) ValueKeys(of Runs, values cuda.Pointer, buckets uint32, to GroupRuns) error {
	p := ValueKeys{N: of.N, Values: values, Cells: of.Cells, Buckets: buckets, Keys: to.Keys, Begins: to.Begins, OneN: to.N}
	return p.Launch(q, cuda.Size{X: uint32((of.Cells + abi.ResultBlock - 1) / abi.ResultBlock)}, cuda.Size{X: abi.ResultBlock})
}

// grid and block are those of kernels of which a block owns a group at a bucket.
func (r *GroupRuns) grid() cuda.Size { return cuda.Size{X: r.Buckets, Y: min(r.Groups, MaxGridY)} }

// few reports whether groups have few series.
func (r *GroupRuns) few() bool { return r.Places <= groupOrderLeast*r.Groups }

func (r *GroupRuns) block() cuda.Size {
	if r.few() {
		return cuda.Size{X: abi.RowsBlock}
	}
	return cuda.Size{X: abi.GroupOrderBlock}
}

// runsParameters are what kernels over the runs of a batch are given.
func runsParameters(b *Batch, k Buckets) RunsParameters {
	return RunsParameters{
		First: b.First, Tiles: b.Tiles, Rows: b.Rows, Chunks: b.Decoded, Times: b.Times, Values: b.Values,
		Starts: k.Starts, Ends: k.Ends, FirstStart: k.FirstStart, FirstEnd: k.FirstEnd, Every: k.Every,
		Later: k.Later, Buckets: k.Count, Length: k.PerThread, Apart: k.Apart, Differences: k.Differences, Since: k.Since,
	}
}

// MergeRuns puts merging the states of a batch's runs into those of its groups on the queue: of
// group g and bucket k, state g*buckets+k. With values, a float64 a run, what is merged are states
// of these alone. before has three float64 a run for MergeSquares, which must follow, or is 0 where
// states have no squares.
func (q Queue) MergeRuns(from Runs, buckets uint32, p Parts, values cuda.Pointer, to Runs, before cuda.Pointer) error {
	merge := MergeRuns{
		N: from.N, Fields: from.Fields, Cells: from.Cells, Parts: from.Parts, Buckets: buckets,
		Groups: p.Groups, Starts: p.Starts, Count: p.Count, Values: values,
		GroupN: to.N, GroupFields: to.Fields, GroupCells: to.Cells, GroupParts: to.Parts,
		Before: before,
	}
	return merge.Launch(q, spread(buckets, p.Count), cuda.Size{X: abi.RowsBlock, Y: abi.MergeParts})
}

// MergeSquares puts merging the squared distances from the mean of a batch's runs on the queue, behind
// MergeRuns of the same.
func (q Queue) MergeSquares(from Runs, buckets uint32, p Parts, values cuda.Pointer, to Runs, before cuda.Pointer) error {
	terms := SquareTerms{N: from.N, Fields: from.Fields, Cells: from.Cells, Parts: from.Parts, Values: values, Before: before}
	grid := cuda.Size{X: uint32((from.Cells + abi.ResultBlock - 1) / abi.ResultBlock)}
	if err := terms.Launch(q, grid, cuda.Size{X: abi.ResultBlock}); err != nil {
		return err
	}
	add := AddSquares{
		Terms: before, Buckets: buckets, Groups: p.Groups, Starts: p.Starts, Count: p.Count,
		GroupFields: to.Fields, GroupCells: to.Cells, GroupParts: to.Parts,
	}
	return add.Launch(q, spread(buckets, p.Count), cuda.Size{X: abi.RowsBlock})
}

// spread is the grid of kernels of which a thread owns a group at a bucket and loads lines of its
// own: where there are few of them, a warp has fewer, down to 4, so that all multiprocessors work.
func spread(buckets, groups uint32) cuda.Size {
	const enough = 256 // blocks
	each := uint32(abi.RowsBlock)
	for each > 4 && (buckets+each-1)/each*groups < enough {
		each /= 2
	}
	return cuda.Size{X: (buckets + each - 1) / each, Y: min(groups, MaxGridY)}
}

// StateValues puts an aggregate of states on the queue. out has a float64 a state.
func (q Queue) StateValues(of Runs, a abi.Aggregate, out cuda.Pointer) error {
	p := StateValues{N: of.N, Fields: of.Fields, Cells: of.Cells, Parts: of.Parts, Aggregate: uint32(a), Out: out}
	grid := cuda.Size{X: uint32((of.Cells + abi.ResultBlock - 1) / abi.ResultBlock)}
	return p.Launch(q, grid, cuda.Size{X: abi.ResultBlock})
}

// RunRows puts an aggregate of the states of a batch's runs on the queue, as a row for each place:
// rows has a float64 a bucket, and present a bitmap in whole uint64.
func (q Queue) RunRows(of Runs, a Made, tiles, buckets uint32, rows, present cuda.Pointer) error {
	grid := Blocks(buckets, abi.RowsBlock)
	grid.Y = min(tiles, MaxGridY)
	p := RunRows{
		N: of.N, Fields: of.Fields, Cells: of.Cells, Parts: of.Parts, Aggregate: uint32(a.Aggregate), Found: a.Found,
		Tiles: tiles, Buckets: buckets, Words: 2 * ((buckets + 63) / 64), Rows: rows, Present: present,
	}
	return p.Launch(q, grid, cuda.Size{X: abi.RowsBlock, Y: abi.RunRowsWarps})
}
