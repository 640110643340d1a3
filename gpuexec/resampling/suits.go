package resampling

import (
	"fmt"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// aggregates are those that kernels make of states, by name.
var aggregates = map[string]abi.Aggregate{
	"count": abi.CountOf, "sum": abi.SumOf, "mean": abi.MeanOf, "min": abi.MinOf, "max": abi.MaxOf, "range": abi.RangeOf,
	"std": abi.DeviationOf, "var": abi.VarianceOf, "first": abi.FirstOf, "last": abi.LastOf, "time_weighted_mean": abi.WeightedMeanOf,
}

// onDevice are the parts of states that kernels make.
const onDevice = aggregate.Count | aggregate.Sum | aggregate.Mean | aggregate.Extremes | aggregate.Ends | aggregate.Squares | aggregate.Weighted

// Kernels have the bits of the parts that package aggregate has.
var _ = [1]int{}[onDevice-(abi.CountPart|abi.SumPart|abi.MeanPart|abi.ExtremesPart|abi.EndsPart|abi.SquaresPart|abi.WeightedPart)]

// Suits says why a plan cannot be computed on a GPU, whatever its data, or nothing.
func Suits(p *resample.Plan) string {
	for _, a := range p.Aggregates {
		if _, ok := aggregates[a.Name]; !ok {
			return fmt.Sprintf("the aggregate %s is not on the GPU yet", a.Text)
		}
	}
	if r := p.Reaggregate; r != nil {
		if _, ok := aggregates[r.Name]; !ok {
			return fmt.Sprintf("aggregating again by %s is not on the GPU yet", r.Name)
		}
	}
	return ""
}

// SuitsTask says why a task cannot be computed on a GPU, or nothing.
func SuitsTask(t *resample.Task) string {
	switch {
	case !t.Selection.OnlyFloats():
		return "native histograms are not on the GPU"
	case t.Selection.NumSeries() > 1<<28:
		return "it has too many series"
	}
	return Suits(t.Plan)
}

// unsuited is the error of a task that needs more memory than there is.
func unsuited(reason string) error { return &pipeline.Unsuited{Reason: reason} }
