package placement

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resampling"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// resampledBy resamples on cores.
func resampledBy(e *resample.Executor) evaluator {
	return func(ctx context.Context, s *selection.Selection, g plan.Grid) error {
		p, err := requestOver(g)
		if err != nil {
			return err
		}
		result, err := e.Run(ctx, synthetic.Storage{Selection: s}, p)
		if err == nil {
			result.Release()
		}
		return err
	}
}

// resampledOn resamples on a machine with a GPU.
func resampledOn(m *pipeline.Machine) evaluator {
	return func(ctx context.Context, s *selection.Selection, g plan.Grid) error {
		p, err := requestOver(g)
		if err != nil {
			return err
		}
		groupOf := selection.SeriesNote(s.Notes(), oneGroup{}, func() []int32 { return make([]int32, s.NumSeries()) })
		t := &resample.Task{Plan: p, Selection: s, GroupOf: groupOf, Groups: 1, Ended: func() error { return ctx.Err() }}
		_, err = resampling.Evaluate(ctx, m, t, func(*resample.Cells) error { return nil })
		return err
	}
}

// oneGroup is the key of the groups of series that are all in one.
type oneGroup struct{}

// requestOver is the request that is measured, whose buckets are the steps of a grid.
func requestOver(g plan.Grid) (*resample.Plan, error) {
	r := &resample.Request{
		Selectors: [][]*labels.Matcher{nil}, Start: g.Start - g.Interval, End: g.At(g.Steps - 1),
		Layout: bucket.Layout{Every: bucket.Span{N: g.Interval}}, Grouping: &resample.Grouping{}, Executor: resample.ChooseCores,
	}
	mean, err := aggregate.Library{}.Parse("mean")
	if err != nil {
		return nil, err
	}
	r.Aggregates = []aggregate.Aggregate{mean}
	return resample.NewPlan(r)
}
