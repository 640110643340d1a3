package gpuexec

import (
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
)

// rows are the product of a window that is not aggregated here: its values, which
// are copied back batch by batch.
type rows struct{ *job }

// words is the number of words of a series' bitmap.
func (p *rows) words() int { return (p.l.Grid.Steps + 63) / 64 }

// tileBytes is what a tile takes besides its values on the device, bitmaps and the counts of each
// step, which a batch has once, and what of it is copied back, with the counts of each series.
func (p *rows) tileBytes() (rest, back int) {
	bitmaps := 8 * layout.Lanes * p.words()
	return bitmaps + 16*p.l.Grid.Steps, bitmaps + layout.Lanes*int(unsafe.Sizeof(abi.SeriesCounts{}))
}

// stepReads are where the counts of each step of a batch are, behind its bitmaps.
func (p *rows) stepReads(b *pipeline.Batch) cuda.Pointer {
	return b.At(b.Output.Rest) + cuda.Pointer(8*layout.Lanes*p.words()*len(b.Sizes))
}

// Compute implements pipeline.Program. What each step reads is counted batch by batch.
func (p *rows) Compute(q launch.Queue, b *pipeline.Batch) error {
	if err := p.windows(q, b); err != nil {
		return err
	}
	n, at := p.steps.Count, p.stepReads(b)
	if err := q.Context.Set(at, 0, uint64(16*n), q.Stream); err != nil {
		return err
	}
	return q.StepReads(b.Out.Reads, b.Tiles, n, at, at+cuda.Pointer(8*n))
}

// Reduce implements pipeline.Program. The rows go where the counts were that Compute has looked at.
func (p *rows) Reduce(q launch.Queue, b *pipeline.Batch) error {
	return q.SeriesRows(b.Out.Values, b.Tiles, p.steps.Count, b.Out.Reads, b.At(b.Output.Rest))
}

// Back implements pipeline.Program.
func (p *rows) Back(b *pipeline.Batch) pipeline.Back {
	counts := int(unsafe.Sizeof(abi.SeriesCounts{}))
	return pipeline.Back{
		Rows: []cuda.Pointer{b.At(b.Output.Reads)}, Width: p.l.Grid.Steps,
		Rest: []pipeline.Memory{
			{At: b.At(b.Output.Rest), Size: 8 * p.words() * len(b.Series)},
			{At: p.At(p.counts) + cuda.Pointer(b.Base*counts), Size: counts * len(b.Series)},
			{At: p.stepReads(b), Size: 16 * p.l.Grid.Steps},
		},
	}
}

// Consume implements pipeline.Program: the cores get the rows.
func (p *rows) Consume(_ *pipeline.Batch, r *pipeline.Returned) error {
	reads := layout.Of[int64](r.Rest[2])
	return p.consume(cpuexec.Rows{
		Values: r.Values, Each: r.Each, Release: r.Release,
		Present: layout.Of[uint64](r.Rest[0]), Counts: layout.Of[cpuexec.SeriesCounts](r.Rest[1]),
		All: reads[:p.l.Grid.Steps], Fresh: reads[p.l.Grid.Steps:],
	})
}
