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
	Count, PerThread     uint32       // of all; and of one thread
	Apart                bool         // no two overlap
	Differences          bool         // runs are of differences between samples
	Since                int64        // ms; of differences, when samples begin
}

// edges are the parameters that say where buckets lie.
func (k *Buckets) edges() []any {
	return []any{k.Starts, k.Ends, k.FirstStart, k.FirstEnd, k.Every, k.Later, k.Count}
}

// Runs are states in device memory, a field after the other, and what else is made of runs.
type Runs struct {
	N      cuda.Pointer // uint32 a state: its samples, 0 where there is none
	Fields cuda.Pointer // float64 a field and state: abi.RunFields, or those of a custom aggregate's program
	Cells  uint64       // states
	Parts  uint32       // of each
	Custom bool         // the states are those of a program, whose kernels the queue has

	Found  cuda.Pointer // float64 a run: results of custom states, which write no fields then, or 0
	Keys   cuda.Pointer // uint64 a sample, a row a series, for order statistics, or 0
	InRows cuda.Pointer // with keys, uint64 a lane and bucket: which keys of a row are the run's
	Points cuda.Pointer // uint32 a place, to which the number of runs is added
}

// CountRuns puts making what to has of a batch's runs on the queue: of the series at place p and
// bucket k, number (p/32*Count+k)*32+p%32. With fused, which is for buckets that are apart, it
// decodes the chunks of the batch too.
func (q Queue) CountRuns(b *Batch, k Buckets, to *Runs, fused bool) error {
	all := append(k.edges(), to.Parts, to.N, to.Fields, to.Cells, to.Points)
	switch {
	case fused && to.Custom:
		return q.fused("custom_fused", b, append(all, to.Found)...)
	case fused:
		return q.fused("fused_runs", b, all...)
	case to.Custom:
		return q.runs("custom_runs", b, k, to.N, to.Fields, to.Cells, to.Found, to.Points)
	}
	err := q.runs("count_uniqs", b, k, to.Parts, to.N, to.Fields, to.Cells, to.Points, to.InRows)
	if err != nil || to.Keys == 0 {
		return err
	}
	parts := b.Chunks/(8*abi.TileChunks*b.Tiles) + 1 // warps of a tile of series
	grid := cuda.Size{X: b.Tiles, Y: (parts + abi.KeysWarps - 1) / abi.KeysWarps}
	return q.Launch("series_keys", grid, cuda.Size{X: 32, Y: abi.KeysWarps}, append(b.stored(), k.Differences, b.KeyRows, to.Keys)...)
}

// runs puts a kernel over the runs of a batch on the queue, of which a thread owns a series at
// PerThread buckets.
func (q Queue) runs(name Kernel, b *Batch, k Buckets, more ...any) error {
	params := append(append(b.stored(), b.Places), k.edges()...)
	params = append(params, k.PerThread, k.Apart, k.Differences, k.Since)
	return q.PerSeries(name, b.Tiles, k.Count, k.PerThread, append(params, more...)...)
}

// RunOrder puts order statistics of a batch's runs, which have keys, on the queue: quantiles has a
// float64 for each, negative for the number of different values; of.Found gets of.Cells float64 for
// each. The batch's fault becomes abi.LongRun, unless it is less, where a run is too long.
func (q Queue) RunOrder(b *Batch, buckets uint32, of *Runs, quantiles cuda.Pointer, statistics uint32) error {
	return q.Launch("run_order", cuda.Size{X: b.Tiles * buckets}, cuda.Size{X: abi.RowsBlock},
		of.InRows, of.Keys, b.KeyRows, b.Places, buckets, quantiles, statistics, of.Found, of.Cells, b.Fault)
}

// GroupRuns are the runs of groups over all batches of a job, of which places and tiles are counted
// on.
type GroupRuns struct {
	InRows, Keys   cuda.Pointer // as of Runs
	TileRows       cuda.Pointer // uint64, as Batch.KeyRows
	Members, First cuda.Pointer // uint32: the lanes of each group, and where they begin
	Groups, Places uint32
	Buckets        uint32
	GroupN         cuda.Pointer // uint32 a group and bucket: samples
}

// groupOrderLeast is the most places of a group, on average, for the smallest blocks, with little shared
// memory.
const groupOrderLeast = 64

// GroupOrder puts quantiles of the values of groups on the queue: quantiles has a float64 for each,
// and out a float64 for each of them, each group, and each bucket.
func (q Queue) GroupOrder(r GroupRuns, quantiles cuda.Pointer, statistics uint32, out cuda.Pointer) error {
	k := Kernel("group_order")
	if r.few() {
		k = "group_order_few"
	}
	return q.groups(k, r, quantiles, statistics, r.GroupN, out)
}

// GroupDistinct puts the numbers of different values of groups on the queue: out has a float64 for
// each group and bucket.
func (q Queue) GroupDistinct(r GroupRuns, out cuda.Pointer) error {
	return q.groups("group_distinct", r, r.GroupN, out)
}

// groups puts a kernel of which a block owns a group at a bucket on the queue.
func (q Queue) groups(k Kernel, r GroupRuns, more ...any) error {
	block := cuda.Size{X: abi.GroupOrderBlock}
	if r.few() {
		block.X = abi.RowsBlock
	}
	params := []any{r.InRows, r.Keys, r.TileRows, r.Members, r.First, r.Groups, r.Buckets}
	return q.Launch(k, cuda.Size{X: r.Buckets, Y: min(r.Groups, MaxGridY)}, block, append(params, more...)...)
}

// few reports whether groups have few series.
func (r *GroupRuns) few() bool { return r.Places <= groupOrderLeast*r.Groups }

// MergeRuns puts merging the states of a batch's runs into those of its groups on the queue: of
// group g and bucket k, state g*buckets+k. With values, a float64 a run, what is merged are states
// of these alone. before has three float64 a run where the states have squared distances from the
// mean, or is 0.
func (q Queue) MergeRuns(from *Runs, buckets uint32, p Parts, to *Runs, values, before cuda.Pointer) error {
	grid := spread(buckets, p.Count)
	if to.Custom {
		return q.Launch("custom_merge", grid, cuda.Size{X: abi.RowsBlock},
			from.N, from.Fields, from.Cells, buckets, p.Groups, p.Starts, p.Count, values, to.N, to.Fields, to.Cells)
	}
	err := q.Launch("merge_runs", grid, cuda.Size{X: abi.RowsBlock, Y: abi.MergeParts},
		from.N, from.Fields, from.Cells, from.Parts, buckets, p.Groups, p.Starts, p.Count, values,
		to.N, to.Fields, to.Cells, to.Parts, before)
	if err != nil || before == 0 {
		return err
	}
	err = q.Results("square_terms", from.Cells, from.N, from.Fields, from.Cells, from.Parts, values, before)
	if err != nil {
		return err
	}
	return q.Launch("add_squares", grid, cuda.Size{X: abi.RowsBlock},
		before, buckets, p.Groups, p.Starts, p.Count, to.Fields, to.Cells, to.Parts)
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
func (q Queue) StateValues(of *Runs, a uint32, out cuda.Pointer) error {
	return q.Results("state_values", of.Cells, of.N, of.Fields, of.Cells, of.Parts, uint32(a), out)
}

// CustomValues puts the results of the states of a program on the queue. out has a float64 a state.
func (q Queue) CustomValues(of *Runs, k Buckets, out cuda.Pointer) error {
	params := append([]any{of.N, of.Fields, of.Cells}, k.edges()...)
	return q.Results("custom_values", of.Cells, append(params, out)...)
}

// RunRows puts an aggregate of a batch's runs on the queue, as a row for each place: of states, or
// abi.Found, a float64 a run. rows has a float64 a bucket, and present a bitmap in whole uint64.
func (q Queue) RunRows(b *Batch, buckets uint32, of *Runs, a uint32, found, rows, present cuda.Pointer) error {
	grid := Blocks(buckets, abi.RowsBlock)
	grid.Y = min(b.Tiles, MaxGridY)
	words := 2 * ((buckets + 63) / 64)
	return q.Launch("run_rows", grid, cuda.Size{X: abi.RowsBlock, Y: abi.RunRowsWarps},
		of.N, of.Fields, of.Cells, of.Parts, uint32(a), found, b.Tiles, buckets, words, rows, present)
}
