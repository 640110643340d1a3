package gpuexec

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// The device counts samples and marks absent values as the cores read them.
var (
	_ = cpuexec.SeriesCounts(abi.SeriesCounts{})
	_ = [1]int{}[abi.Absent-cpuexec.Absent]
)

// finish is the outcome of what was fetched, which is nothing of rows.
func (j *job) finish(p product, fetched []byte) (o cpuexec.Outcome) {
	o.Work = plan.Work{Chunks: j.Total.Chunks, Samples: j.Total.Samples, Bytes: int64(j.Total.Encoded)}
	if _, isRows := p.(*rows); isRows {
		return o
	}
	r := &o.Results
	r.Counts = bySeries(j, pipeline.View[cpuexec.SeriesCounts](j.Job, fetched, j.counts))
	kept := pipeline.View[uint32](j.Job, fetched, j.kept)
	r.Kept = make([][]uint32, len(j.l.Maps))
	for m, n := range j.l.Maps {
		if n.Filters() {
			r.Kept[m] = bySeries(j, kept[m*j.Places():])
		}
	}
	reads := slices.Clone(pipeline.View[int64](j.Job, fetched, j.reads))
	r.All, r.Fresh = reads[:j.l.Grid.Steps], reads[j.l.Grid.Steps:]
	p.results(fetched, r)
	return o
}

// bySeries copies what is at the place of each series, in the order of the series.
func bySeries[T any](j *job, at []T) []T {
	all := make([]T, len(j.Layout.Places))
	const block = 8192
	parallel.For((len(all)+block-1)/block, func(k int) {
		for i := k * block; i < min((k+1)*block, len(all)); i++ {
			all[i] = at[j.Layout.Places[i]]
		}
	})
	return all
}
