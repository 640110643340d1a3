package resampling

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resident"
)

// order is what order statistics of groups need of all batches of a job: it stays on the device, in
// memory of the store, until the last batch is there.
type order struct {
	block   *resident.Block
	sources []launch.GroupRuns // by source; without keys where it has none
	rows    []uint64           // the first row of each tile of series, over all batches

	tileRows, members, first layout.Section // tables, see launch.GroupRuns
}

// take takes device memory for the tables.
func (o *order) take(j *job) {
	o.tileRows = j.Take(8 * j.Places() / layout.Lanes)
	o.members, o.first = j.Take(4*len(j.t.GroupOf)), j.Take(4*(j.t.Groups+1))
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
			rows += tile.Rows
		}
	}
	keys, cells := 8*layout.Lanes*rows, 4*len(o.rows)*layout.Lanes*int(j.buckets.Count)
	each := layout.Aligned(keys, 256) + 2*layout.Aligned(cells, 256)
	n := 0
	for i := range j.sources {
		if len(j.sources[i].ordered) > 0 {
			n++
		}
	}
	if o.block = resident.AddRoom(j.Store, j, n*each); o.block == nil {
		return unsuited("the samples of its groups, which order statistics need at once, need more memory than the executor has on the device")
	}
	at := cuda.Pointer(o.block.At)
	for i := range j.sources {
		r := launch.GroupRuns{}
		if len(j.sources[i].ordered) > 0 {
			r.Keys, r.N = at, at+cuda.Pointer(layout.Aligned(keys, 256))
			r.Begins = r.N + cuda.Pointer(layout.Aligned(cells, 256))
			at += cuda.Pointer(each)
		}
		o.sources = append(o.sources, r)
	}
	return nil
}

// release gives the memory back once nothing of the job is under way.
func (o *order) release(j *job) {
	if o.block != nil {
		j.Store.Discard([]*resident.Block{o.block})
	}
}

// of has a source's runs of a batch go where they stay.
func (o *order) of(j *job, s int, b *pipeline.Batch, m *made) {
	all := &o.sources[s]
	if all.Keys == 0 {
		return
	}
	tile := b.Base / layout.Lanes
	cells := cuda.Pointer(4 * tile * layout.Lanes * int(j.buckets.Count))
	m.keys, m.N, m.begins = all.Keys+cuda.Pointer(8*layout.Lanes*o.rows[tile]), all.N+cells, all.Begins+cells
}

// end puts the quantiles of a source's groups on a stream: found has a float64 for each ordered
// aggregate, group and bucket, and n is the groups' samples.
func (o *order) end(j *job, q launch.Queue, s int, n, found cuda.Pointer) error {
	r := o.sources[s]
	r.TileRows, r.Members, r.First = j.At(o.tileRows), j.At(o.members), j.At(o.first)
	r.Groups, r.Places, r.Buckets, r.GroupN = uint32(j.t.Groups), uint32(len(j.t.GroupOf)), j.buckets.Count, n
	return q.GroupOrder(r, j.At(j.sources[s].quantiles), uint32(len(j.sources[s].ordered)), found)
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
	return pipeline.Upload(j.Job, c, s, o.first, first)
}
