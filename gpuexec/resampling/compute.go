package resampling

import (
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
)

// Decode implements pipeline.Program.
func (j *job) Decode(q launch.Queue, b *pipeline.Batch) error {
	if b.Chunks == 0 || j.fuses {
		return nil
	}
	return q.DecodeSeries(&b.Batch)
}

// Compute implements pipeline.Program: the states of runs, and what is made of them alone.
func (j *job) Compute(q launch.Queue, b *pipeline.Batch) error {
	all, _ := j.runs(b)
	for i := range all {
		s, k, to, of := &j.sources[i], j.buckets, &all[i], q
		k.PerThread, k.Differences = j.perThread(b.Part), s.Differences
		if s.custom != nil {
			of = q.Of(s.custom.kernels)
		}
		if err := of.CountRuns(&b.Batch, k, &to.Runs, j.fuses); err != nil {
			return err
		}
		if len(s.ordered) == 0 || merges(j.t) {
			continue // or until all batches are there
		}
		if err := q.RunOrder(&b.Batch, k.Count, &to.Runs, j.At(s.quantiles), uint32(len(s.ordered))); err != nil {
			return err
		}
	}
	return nil
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
