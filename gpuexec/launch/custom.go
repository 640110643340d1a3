package launch

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Of is the queue for kernels of another set.
func (q Queue) Of(s *Set) Queue { return Queue{Set: s, Context: q.Context, Stream: q.Stream} }

// CustomRuns puts making a custom aggregate's states of a batch's runs on the queue, which is of its
// program's kernels, as CountUniqs does for the built-in ones; to.Fields has the program's fields. With
// found, a float64 a run, the results of the states go there and no fields are written.
func (q Queue) CustomRuns(b *Batch, k Buckets, to Runs, found, points cuda.Pointer) error {
	p := CustomRuns{RunsParameters: runsParameters(b, k), N: to.N, Fields: to.Fields, Cells: to.Cells, Found: found, Points: points}
	return p.Launch(q, k.grid(b), cuda.Size{X: abi.WindowBlock})
}

// CustomFused puts decoding the chunks of a batch and making such states, or their results, in one on
// the queue, as FusedRuns does.
func (q Queue) CustomFused(b *Batch, k Buckets, to Runs, found, points cuda.Pointer, report Report) error {
	p := fusedRunsParameters(b, k, to, points, report)
	return q.Chunks(&CustomFused{FusedRunsParameters: p, Found: found}, b)
}

// CustomMerge puts merging such states into those of groups on the queue, as MergeRuns does.
func (q Queue) CustomMerge(from Runs, buckets uint32, p Parts, values cuda.Pointer, to Runs) error {
	merge := CustomMerge{
		N: from.N, Fields: from.Fields, Cells: from.Cells, Buckets: buckets, Groups: p.Groups, Starts: p.Starts, Count: p.Count,
		Values: values, GroupN: to.N, GroupFields: to.Fields, GroupCells: to.Cells,
	}
	return merge.Launch(q, spread(buckets, p.Count), cuda.Size{X: abi.RowsBlock})
}

// CustomValues puts the results of groups' states on the queue. out has a float64 a state.
func (q Queue) CustomValues(of Runs, k Buckets, out cuda.Pointer) error {
	p := CustomValues{
		N: of.N, Fields: of.Fields, Cells: of.Cells, Starts: k.Starts, Ends: k.Ends, FirstStart: k.FirstStart, FirstEnd: k.FirstEnd,
		Every: k.Every, Later: k.Later, Buckets: k.Count, Out: out,
	}
	grid := cuda.Size{X: uint32((of.Cells + abi.ResultBlock - 1) / abi.ResultBlock)}
	return p.Launch(q, grid, cuda.Size{X: abi.ResultBlock})
}
