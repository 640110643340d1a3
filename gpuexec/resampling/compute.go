package resampling

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
)

// Decode implements pipeline.Program.
func (j *job) Decode(q launch.Queue, b *pipeline.Batch) error {
	if b.Chunks == 0 || j.fuses {
		return nil
	}
	return q.DecodeSeries(&b.Batch, true, j.Report(b.Number))
}

// Compute implements pipeline.Program: the states of runs, and what is made of them alone.
func (j *job) Compute(q launch.Queue, b *pipeline.Batch) error {
	all, _ := j.runs(b)
	for i, to := range all {
		s, k := &j.sources[i], j.buckets
		k.PerThread, k.Differences = j.perThread(b.Part), s.Differences
		if err := j.count(q, b, s, k, &to); err != nil {
			return err
		}
		if len(s.ordered) == 0 {
			continue
		}
		if !k.Keyed() {
			if err := q.OrderKeys(&b.Batch, k, to.order()); err != nil {
				return err
			}
		}
		if merges(j.t) {
			continue // until all batches are there
		}
		if err := q.RunOrder(&b.Batch, k.Count, to.Runs, to.order(), j.At(s.quantiles), uint32(len(s.ordered)), to.found, j.At(j.Fault)); err != nil {
			return err
		}
	}
	return j.product.made(j, q, b)
}

// count puts making the states of a source's runs on a queue, or what those come to.
func (j *job) count(q launch.Queue, b *pipeline.Batch, s *source, k launch.Buckets, to *made) error {
	points, report := j.At(j.points)+cuda.Pointer(4*b.Base), j.Report(b.Number)
	switch {
	case s.custom != nil && j.fuses:
		return q.Of(s.custom.kernels).CustomFused(&b.Batch, k, to.Runs, to.found, points, report)
	case s.custom != nil:
		return q.Of(s.custom.kernels).CustomRuns(&b.Batch, k, to.Runs, to.found, points)
	case len(s.ordered) > 0 && j.fuses:
		return q.FusedKeys(&b.Batch, k, to.Runs, points, to.order(), report)
	case len(s.ordered) > 0 && k.Keyed():
		return q.CountKeys(&b.Batch, k, to.Runs, points, to.order())
	case j.fuses:
		return q.FusedRuns(&b.Batch, k, to.Runs, points, report)
	}
	return q.CountUniqs(&b.Batch, k, to.Runs, points)
}

// samplesPerThread is the least number of samples that a thread goes through: finding the first one
// takes as long as some dozens.
const samplesPerThread = 256

// mostPerThread is the most buckets that a thread goes through to have as many, as it must say of each
// that it is empty.
const mostPerThread = 1024

// perThread is the number of buckets that a thread goes through: as many as leave enough threads
// for the device, and have enough samples.
func (j *job) perThread(b *layout.Part) uint32 {
	places, buckets := uint32(len(b.Sizes)*layout.Lanes), j.buckets.Count
	parts := max(1, j.ThreadGoal/places)
	ofSeries := max(1, uint64(b.Total.Samples)/uint64(places))
	enough := min(mostPerThread, (samplesPerThread*uint64(buckets)+ofSeries-1)/ofSeries)
	return max((buckets+parts-1)/parts, uint32(enough), (buckets+launch.MaxGridY-1)/launch.MaxGridY, 1)
}
