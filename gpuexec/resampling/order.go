package resampling

import (
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resident"
)

// order is what order statistics of groups need of all batches of a job: it stays on the device, in
// memory of the store, until the last batch is there.
type order struct {
	block *resident.Block
	runs  []launch.GroupRuns // by slot, which are sources; without keys where one has none
	rows  []uint64           // the first row of each tile of series, over all batches
	// again is the number of slots whose values, one a run, are aggregated again by the median. A
	// tile has a row for each bucket then.
	again int

	tileRows, members, first layout.Section // tables, see launch.GroupRuns
	half                     layout.Section // a float64: the quantile of a median
}

// take takes device memory for the tables.
func (o *order) take(j *job) {
	o.tileRows = j.Take(8 * j.Places() / layout.Lanes)
	o.members, o.first, o.half = j.Take(4*len(j.t.GroupOf)), j.Take(4*(j.t.Groups+1)), j.Take(8)
}

// claim claims the memory that all batches need, which the layout says.
func (o *order) claim(j *job) error {
	rows := 0
	for n := 0; ; n++ {
		b, err := j.Part(n)
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		for _, tile := range b.Sizes {
			o.rows = append(o.rows, uint64(rows))
			if rows += tile.Rows; o.again > 0 {
				rows = len(o.rows) * int(j.buckets.Count)
			}
		}
	}
	keys, cells := 8*layout.Lanes*rows, 4*len(o.rows)*layout.Lanes*int(j.buckets.Count)
	each := layout.Aligned(keys, 256) + 2*layout.Aligned(cells, 256)
	needs := slices.Repeat([]bool{true}, o.again) // by slot
	if o.again == 0 {
		for i := range j.sources {
			needs = append(needs, len(j.sources[i].ordered) > 0)
		}
	}
	n := 0
	for _, is := range needs {
		if is {
			n++
		}
	}
	if o.block = resident.AddRoom(j.Store, j, n*each); o.block == nil {
		return unsuited("the samples of its groups, which order statistics need at once, need more memory than the executor has on the device")
	}
	at := cuda.Pointer(o.block.At)
	for _, is := range needs {
		r := launch.GroupRuns{}
		if is {
			r.Keys, r.N = at, at+cuda.Pointer(layout.Aligned(keys, 256))
			r.Begins = r.N + cuda.Pointer(layout.Aligned(cells, 256))
			at += cuda.Pointer(each)
		}
		o.runs = append(o.runs, r)
	}
	return nil
}

// release gives the memory back once nothing of the job is under way.
func (o *order) release(j *job) {
	if o.block != nil {
		j.Store.Discard([]*resident.Block{o.block})
	}
}

// at is where what a batch has of a slot stays.
func (o *order) at(j *job, s int, b *pipeline.Batch) launch.GroupRuns {
	r := o.runs[s]
	tile := b.Base / layout.Lanes
	cells := cuda.Pointer(4 * tile * layout.Lanes * int(j.buckets.Count))
	r.Keys, r.N, r.Begins = r.Keys+cuda.Pointer(8*layout.Lanes*o.rows[tile]), r.N+cells, r.Begins+cells
	return r
}

// of has a source's runs of a batch go where they stay.
func (o *order) of(j *job, s int, b *pipeline.Batch, m *made) {
	if o.again == 0 && o.runs[s].Keys != 0 {
		r := o.at(j, s, b)
		m.Keys, m.N, m.Begins = r.Keys, r.N, r.Begins
	}
}

// all is what all batches have of a slot.
func (o *order) all(j *job, s int, n cuda.Pointer) launch.GroupRuns {
	r := o.runs[s]
	r.TileRows, r.Members, r.First = j.At(o.tileRows), j.At(o.members), j.At(o.first)
	r.Groups, r.Places, r.Buckets, r.GroupN = uint32(j.t.Groups), uint32(len(j.t.GroupOf)), j.buckets.Count, n
	return r
}

// median puts the medians of a slot's values on a stream, a float64 for each group and bucket; n is
// the number of these.
func (o *order) median(j *job, q launch.Queue, s int, n, out cuda.Pointer) error {
	return q.GroupOrder(o.all(j, s, n), j.At(o.half), 1, out)
}

// end puts the order statistics of a source's groups on a stream: found has a float64 for each ordered
// aggregate, group and bucket, and n is the groups' samples.
func (o *order) end(j *job, q launch.Queue, s int, n, found cuda.Pointer) error {
	r, of := o.all(j, s, n), j.sources[s].ordered
	quantiles := 0 // before the numbers of different values
	for quantiles < len(of) && quantileOf(j.t.Aggregates[of[quantiles]]) >= 0 {
		quantiles++
	}
	for i := quantiles; i < len(of); i++ {
		if err := q.GroupDistinct(r, found+cuda.Pointer(8*i*j.t.Groups*int(j.buckets.Count))); err != nil {
			return err
		}
	}
	if quantiles == 0 {
		return nil
	}
	return q.GroupOrder(r, j.At(j.sources[s].quantiles), uint32(quantiles), found)
}

// upload copies the tables to the device.
func (o *order) upload(j *job, c *cuda.Context, s cuda.Stream) error {
	first, members := j.Layout.Members(j.t.GroupOf, j.t.Groups)
	if err := pipeline.Upload(j.Job, c, s, o.tileRows, o.rows); err != nil {
		return err
	}
	if err := pipeline.Upload(j.Job, c, s, o.members, members); err != nil {
		return err
	}
	if err := pipeline.Upload(j.Job, c, s, o.half, []float64{0.5}); err != nil {
		return err
	}
	return pipeline.Upload(j.Job, c, s, o.first, first)
}
