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
	Fields cuda.Pointer // float64 a field and state: see FieldBytes
	Cells  uint64       // states
	Parts  uint32       // of each
	Stored uint32       // fields of each
	Custom bool         // the states are those of a program, whose kernels the queue has

	Found  cuda.Pointer // float64 a run: results of custom states, which write no fields then, or 0
	Keys   cuda.Pointer // uint64 a sample, a row a series, for order statistics, or 0
	InRows cuda.Pointer // with keys, uint64 a state: which keys of a row are the run's
	Points cuda.Pointer // uint32 a series, to which the number of runs is added
}

// FieldBytes is the memory of the fields of states, in rows of buckets, each of whole blocks.
func FieldBytes(rows, buckets, fields int) int {
	blocks := (buckets + abi.FieldBlock - 1) / abi.FieldBlock
	return 8 * rows * blocks * abi.FieldBlock * fields
}

// CountRuns puts making what to has of a batch's runs on the queue: of the series at lane l and
// bucket k, number l*Count+k.
func (q Queue) CountRuns(b *Batch, k Buckets, to *Runs) error {
	kernel := Kernel("count_states")
	switch {
	case to.Custom && to.Found != 0:
		return q.runs("custom_runs", b, k, to.N, to.Found, uint32(1), true, to.Points)
	case to.Custom:
		return q.runs("custom_runs", b, k, to.N, to.Fields, to.Stored, false, to.Points)
	case to.Parts&abi.StateParts == 0:
		kernel = "count_uniqs"
	}
	if err := q.runs(kernel, b, k, to.Parts, to.N, to.Fields, to.Points); err != nil || to.Keys == 0 {
		return err
	}
	if err := q.runs("run_begins", b, k, to.N, to.InRows); err != nil {
		return err
	}
	parts := b.Chunks/(8*abi.TileChunks*b.Tiles) + 1 // warps of a tile of series
	grid := cuda.Size{X: b.Tiles, Y: (parts + abi.KeysWarps - 1) / abi.KeysWarps}
	return q.Launch("series_keys", grid, cuda.Size{X: 32, Y: abi.KeysWarps}, append(b.stored(), k.Differences, b.KeyRows, to.Keys)...)
}

// runs puts a kernel over the runs of a batch on the queue, of which a thread owns a series at
// PerThread buckets.
func (q Queue) runs(name Kernel, b *Batch, k Buckets, more ...any) error {
	params := append(b.stored(), k.edges()...)
	params = append(params, k.PerThread, k.Apart, k.Differences, k.Since)
	return q.PerSeries(name, b.Tiles, k.Count, k.PerThread, append(params, more...)...)
}

// RunOrder puts order statistics of a batch's runs, which have keys, on the queue: quantiles has a
// float64 for each, negative for the number of different values; of.Found gets of.Cells float64 for
// each. The batch's fault becomes abi.LongRun, unless it is less, where a run is too long.
func (q Queue) RunOrder(b *Batch, buckets uint32, of *Runs, quantiles cuda.Pointer, statistics uint32) error {
	return q.Launch("run_order", cuda.Size{X: b.Tiles * buckets}, cuda.Size{X: abi.RowsBlock},
		of.InRows, of.Keys, b.KeyRows, buckets, quantiles, statistics, of.Found, of.Cells, b.Fault)
}

// GroupRuns are the runs of groups over all batches of a job, of which series and tiles are counted
// on.
type GroupRuns struct {
	InRows, Keys   cuda.Pointer // as of Runs
	TileRows       cuda.Pointer // uint64, as Batch.KeyRows
	Members, First cuda.Pointer // uint32: the series of each group, and where they begin
	Groups, Series uint32
	Buckets        uint32
	GroupN         cuda.Pointer // uint32 a group and bucket: samples
}

// groupOrderLeast is the most series of a group, on average, for the smallest blocks, with little shared
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
func (r *GroupRuns) few() bool { return r.Series <= groupOrderLeast*r.Groups }

// MergeRuns puts merging the states of a batch's runs into those of its groups on the queue: of
// group g and bucket k, state g*buckets+k. With values, a float64 a run, what is merged are states
// of these alone.
func (q Queue) MergeRuns(from *Runs, buckets uint32, p *Parts, to *Runs, values cuda.Pointer) error {
	if to.Custom {
		return q.PerStep("custom_merge", buckets, p.Count, 1,
			from.N, from.Fields, to.Stored, buckets, p.Groups, p.Starts, p.Lanes, p.Count, values, to.N, to.Fields)
	}
	params := []any{
		from.N, from.Fields, from.Parts, values, buckets, p.Groups, p.Starts, p.Lanes, p.Count, to.N, to.Fields, to.Parts,
	}
	// The fewer buckets a block has, the more multiprocessors are at work; the more rows of threads, the fewer rounds.
	grid, block := Blocks(buckets, 8), cuda.Size{X: 8, Y: 32}
	grid.Y = min(p.Count, MaxGridY)
	if blocks := grid.X * grid.Y; blocks > 2048 {
		grid.X, block = Blocks(buckets, abi.RowsBlock).X, cuda.Size{X: abi.RowsBlock, Y: 2}
		if to.Parts&(abi.StateParts&^abi.MergeParts) != 0 { // squares, one series of a thread a round: four of a block
			block.Y = 4
		}
	} else if blocks > 256 {
		block.Y = 16
	}
	if to.Parts&abi.MergeParts != 0 {
		if err := q.Launch("merge_parts", grid, block, params...); err != nil {
			return err
		}
	}
	return q.Launch("merge_runs", grid, block, params...)
}

// StateRows puts an aggregate of states on the queue, as rows of buckets: of the states, or abi.Found, a float64
// a state. values has a float64 a state, and present a bitmap of each row in whole uint64, or is 0.
func (q Queue) StateRows(of *Runs, buckets, a uint32, found, values, present cuda.Pointer) error {
	rows := uint32(of.Cells / uint64(buckets))
	words := 2 * ((buckets + 63) / 64)
	return q.PerStep("run_rows", buckets, rows, 1, of.N, of.Fields, of.Parts, a, found, rows, buckets, values, words, present)
}

// CustomValues puts the results of the states of a program on the queue. out has a float64 a state.
func (q Queue) CustomValues(of *Runs, k Buckets, out cuda.Pointer) error {
	params := append([]any{of.N, of.Fields, of.Cells, of.Stored}, k.edges()...)
	return q.Results("custom_values", of.Cells, append(params, out)...)
}
