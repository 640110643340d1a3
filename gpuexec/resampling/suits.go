package resampling

import (
	"fmt"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// merges reports whether the samples of several series go into one bucket.
func merges(t *resample.Task) bool { return t.Reaggregate == nil && t.Groups < len(t.GroupOf) }

// ordered reports whether an aggregate is of the order of a run's values, which kernels sort.
func ordered(a aggregate.Aggregate) bool { return a.GPU.Kernel == abi.ByRunOrder }

// quantileOf is the quantile that kernels are told of an aggregate that is ordered: negative for the
// number of different values.
func quantileOf(a aggregate.Aggregate) float64 {
	if a.GPU.Second {
		return -1
	}
	return a.Q
}

// onDevice are the parts of states that kernels make.
const onDevice = aggregate.Count | aggregate.Sum | aggregate.Mean | aggregate.Extremes | aggregate.Ends | aggregate.Squares | aggregate.Weighted

// Kernels have the bits of the parts that package aggregate has.
var _ = [1]int{}[onDevice-(abi.CountPart|abi.SumPart|abi.MeanPart|abi.ExtremesPart|abi.EndsPart|abi.SquaresPart|abi.WeightedPart)]

// SuitsData says why the data of a task cannot be computed on a GPU, or nothing.
func SuitsData(t *resample.Task) string {
	switch {
	case !t.Selection.OnlyFloats():
		return "native histograms are not on the GPU"
	case t.Selection.NumSeries() > 1<<28:
		return "it has too many series"
	}
	most := abi.LongestRun * int64(len(t.GroupOf)) * int64(t.Grid.N())
	if !merges(t) && slices.ContainsFunc(t.Aggregates, ordered) && t.Selection.NumSamples() > most {
		return fmt.Sprintf("runs of more than %d samples are not sorted on the GPU", abi.LongestRun)
	}
	return ""
}

// unsuited is the error of a task that needs more memory than there is.
func unsuited(reason string) error { return &pipeline.Unsuited{Reason: reason} }
