package gpuexec

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan/offload"
)

// rows are the shape of a product that answers each series. Its values are copied back batch by
// batch, with bitmaps of the values that there are. Both are in the section Rest of a batch, but for windows:
//
//	kind 0: tiles × 32 series × width float64 │ kind 1 … │ bitmap 0: tiles × 32 series × words uint64 │ …
type rows struct {
	kinds, width int  // of a series: rows, and the values of each
	bitmaps      int  // of a series
	ready        bool // the rows are those that window kernels write
}

// words is the number of words of a series' bitmap.
func (r *rows) words() int { return (r.width + 63) / 64 }

// claim adds to what a tile needs, or fails where a series' rows do not fit.
func (r *rows) claim(room *layout.Room) error {
	bitmaps := 8 * layout.Lanes * r.bitmaps * r.words()
	room.Rest += bitmaps
	if !r.ready {
		room.Rest += 8 * layout.Lanes * r.kinds * r.width
	}
	room.Back += bitmaps
	if r.kinds*r.width > pinned.BufferValues {
		return &pipeline.Unsuited{Reason: "the values of a series, at all steps or buckets, need more page-locked memory than a buffer has"}
	}
	return nil
}

// in says where the rows of a batch are, where its bitmaps, and where these end.
func (r *rows) in(b *pipeline.Batch) (values, present []cuda.Pointer, end cuda.Pointer) {
	end = b.At(b.Output.Rest)
	places := cuda.Pointer(8 * len(b.Sizes) * layout.Lanes)
	if r.ready {
		values = append(values, b.At(b.Output.Windows))
	}
	for len(values) < r.kinds {
		values = append(values, end)
		end += places * cuda.Pointer(r.width)
	}
	for range r.bitmaps {
		present = append(present, end)
		end += places * cuda.Pointer(r.words())
	}
	return values, present, end
}

// Back implements pipeline.Program.
func (r *rows) Back(b *pipeline.Batch) pipeline.Back {
	values, present, _ := r.in(b)
	back := pipeline.Back{Rows: values, Width: r.width}
	for _, at := range present {
		back.Rest = append(back.Rest, pipeline.Memory{At: at, Size: 8 * r.words() * len(b.Series)})
	}
	return back
}

// returned are the rows that came back of a batch.
func (r *rows) returned(of *pipeline.Returned) *offload.Rows {
	x := &offload.Rows{Each: of.Each, Release: of.Release}
	for i := range r.bitmaps {
		x.Present = append(x.Present, layout.Of[uint64](of.Rest[i]))
	}
	row := of.Each * r.width
	for _, values := range of.Values {
		for k := range r.kinds {
			x.Values = append(x.Values, values[k*row:(k+1)*row])
		}
	}
	return x
}

// queryRows are the product of a window that is not aggregated here. The counts of each series, and
// of what each step reads, come back with the rows.
type queryRows struct {
	*queryJob
	rows
}

// Place implements pipeline.Program. Nothing is fetched at the end.
func (p *queryRows) Place() {
	p.takeNotes(layout.Section{})
	p.FetchRest()
}

// Room implements pipeline.Program.
func (p *queryRows) Room(r *layout.Room) error {
	r.Rest = 16 * p.l.Grid.Steps // a batch has the counts of each step once
	r.Back = layout.Lanes * int(unsafe.Sizeof(abi.SeriesCounts{}))
	return errors.Join(p.queryJob.Room(r), p.claim(r))
}

// Results implements pipeline.Program.
func (p *queryRows) Results(*offload.Outcome) error { return nil }

// Compute implements pipeline.Program. What each step reads is counted batch by batch.
func (p *queryRows) Compute(q launch.Queue, b *pipeline.Batch) error {
	_, _, reads := p.in(b)
	if p.reads.Size > 0 {
		if err := q.Context.Set(reads, 0, uint64(p.reads.Size), q.Stream); err != nil {
			return err
		}
	}
	return p.windows(q, b, reads)
}

// Reduce implements pipeline.Program.
func (p *queryRows) Reduce(q launch.Queue, b *pipeline.Batch) error {
	_, present, _ := p.in(b)
	rows, n := b.Tiles*layout.Lanes, p.steps.Count
	return q.PerStep("series_rows", n, rows, 1, b.Out.Values, rows, n, 2*uint32(p.words()), present[0])
}

// Back implements pipeline.Program.
func (p *queryRows) Back(b *pipeline.Batch) pipeline.Back {
	const each = int(unsafe.Sizeof(abi.SeriesCounts{}))
	back := p.rows.Back(b)
	_, _, reads := p.in(b)
	back.Rest = append(back.Rest,
		pipeline.Memory{At: p.At(p.counts) + cuda.Pointer(b.Base*each), Size: each * len(b.Series)},
		pipeline.Memory{At: reads, Size: p.reads.Size})
	return back
}

// Consume implements pipeline.Program: the cores get the rows.
func (p *queryRows) Consume(_ *pipeline.Batch, r *pipeline.Returned) error {
	x, reads := p.returned(r), layout.Of[int64](r.Rest[2])
	x.Counts = layout.Of[offload.SeriesCounts](r.Rest[1])
	x.All, x.Fresh = reads[:len(reads)/2], reads[len(reads)/2:]
	return p.Hand(x)
}

// requestRows are the product of a request that answers each series.
type requestRows struct {
	*requestJob
	rows
}

// Place implements pipeline.Program.
func (p *requestRows) Place() {
	p.FetchRest()
	p.points = p.Take(4 * p.Places())
}

// Room implements pipeline.Program.
func (p *requestRows) Room(r *layout.Room) error {
	return errors.Join(p.requestJob.Room(r), p.claim(r))
}

// Results implements pipeline.Program.
func (p *requestRows) Results(o *offload.Outcome) error {
	p.note(o)
	return nil
}

// Compute implements pipeline.Program.
func (p *requestRows) Compute(q launch.Queue, b *pipeline.Batch) error {
	if err := p.requestJob.Compute(q, b); err != nil {
		return err
	}
	runs := p.runs(b)
	values, present, _ := p.in(b)
	for s := range p.sources {
		for _, a := range p.sources[s].Outputs {
			of, found := p.madeOf(s, a, &runs[s])
			if err := q.StateRows(&runs[s].Runs, p.buckets.Count, of, found, values[a], present[s]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Consume implements pipeline.Program.
func (p *requestRows) Consume(b *pipeline.Batch, r *pipeline.Returned) error {
	x := p.returned(r)
	x.Groups = slices.Clone(p.t.GroupOf[b.Base:][:len(b.Series)])
	return p.Hand(x)
}
