package resampling

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan/offload"
)

// rows are the product of a request that answers each series. They come back batch by batch.
type rows struct{ *job }

// words is the number of words of a series' bitmap.
func (p *rows) words() int { return (int(p.buckets.Count) + 63) / 64 }

// Place implements pipeline.Product.
func (p *rows) Place() error {
	p.FetchRest()
	r, err := p.divide()
	if err != nil {
		return err
	}
	values := len(p.t.Aggregates) * int(p.buckets.Count)
	if err := pipeline.Fit(values); err != nil {
		return err
	}
	r.Runs += 8 * layout.Lanes * values
	r.Rest = 8 * layout.Lanes * len(p.sources) * p.words()
	r.Back = r.Rest
	return p.Lay(r)
}

// bitmaps are where those of a source are on the device, and rowsOf the rows by aggregate of the request.
func (p *rows) bitmaps(b *pipeline.Batch, source int) cuda.Pointer {
	return b.At(b.Output.Rest) + cuda.Pointer(8*source*p.words()*len(b.Sizes)*layout.Lanes)
}

func (p *rows) rowsOf(b *pipeline.Batch) (all []cuda.Pointer) {
	_, at := p.runs(b)
	for range p.t.Aggregates {
		all = append(all, at)
		at += cuda.Pointer(8 * int(p.buckets.Count) * len(b.Sizes) * layout.Lanes)
	}
	return all
}

// Compute implements pipeline.Program.
func (p *rows) Compute(q launch.Queue, b *pipeline.Batch) error {
	if err := p.job.Compute(q, b); err != nil {
		return err
	}
	runs, _ := p.runs(b)
	to := p.rowsOf(b)
	for s := range p.sources {
		for _, a := range p.sources[s].Outputs {
			of, found := p.madeOf(s, a, &runs[s])
			if err := q.RunRows(&b.Batch, p.buckets.Count, &runs[s].Runs, of, found, to[a], p.bitmaps(b, s)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Back implements pipeline.Program.
func (p *rows) Back(b *pipeline.Batch) pipeline.Back {
	back := pipeline.Back{Rows: p.rowsOf(b), Width: int(p.buckets.Count)}
	for s := range p.sources {
		back.Rest = append(back.Rest, pipeline.Memory{At: p.bitmaps(b, s), Size: 8 * p.words() * len(b.Series)})
	}
	return back
}

// Consume implements pipeline.Program.
func (p *rows) Consume(b *pipeline.Batch, r *pipeline.Returned) error {
	x := &offload.Rows{Each: r.Each, Release: r.Release}
	for _, series := range b.Series {
		x.Groups = append(x.Groups, p.t.GroupOf[series])
	}
	for s := range p.sources {
		x.Present = append(x.Present, layout.Of[uint64](r.Rest[s]))
	}
	row := r.Each * int(p.buckets.Count)
	for _, of := range r.Values {
		for a := range p.t.Aggregates {
			x.Values = append(x.Values, of[a*row:(a+1)*row])
		}
	}
	return p.Hand(x)
}

// Results implements pipeline.Product.
func (p *rows) Results(fetched []byte, o *offload.Outcome) error {
	p.note(fetched, o)
	return nil
}
