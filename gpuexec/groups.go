package gpuexec

import (
	"cmp"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// groups are the product of a request whose runs are merged into groups.
type groups struct {
	*requestJob
	slots  []groupSlot
	values []layout.Section // float64 a cell, by aggregate of the request; fetched
}

// groupSlot is a state for each group and bucket.
type groupSlot struct {
	source  int // that its runs are of
	parts   aggregate.Parts
	custom  *program // that merges them, or nil
	stored  int      // fields of a state
	fields  layout.Section
	n       layout.Section // fetched
	found   layout.Section // float64 a cell for each ordered aggregate; fetched
	outputs []int          // aggregates of the request
}

// cells is the number of groups times buckets.
func (p *groups) cells() int { return p.t.Groups * int(p.buckets.Count) }

// Place implements pipeline.Program.
func (p *groups) Place() {
	for s, of := range p.t.Slots {
		outputs := of.Outputs
		slot := groupSlot{source: s, outputs: outputs}
		if r := p.t.Reaggregate; r != nil {
			slot.parts, slot.custom = (r.Reads | aggregate.Count).With(), p.custom[r]
			slot.source = slices.IndexFunc(p.sources, func(of source) bool { return slices.Contains(of.Outputs, outputs[0]) })
		} else {
			slot.parts, slot.custom = p.sources[s].Contents.Parts, p.sources[s].custom
		}
		slot.stored = runFields(slot.parts)
		if slot.custom != nil {
			slot.stored = len(slot.custom.Start)
		}
		slot.fields = p.Take(launch.FieldBytes(p.t.Groups, int(p.buckets.Count), slot.stored))
		p.slots = append(p.slots, slot)
	}
	if r := p.t.Reaggregate; r != nil && r.GPU.Kernel == abi.ByRunOrder {
		p.order = &order{again: len(p.slots)}
	}
	if merges(p.t) && slices.ContainsFunc(p.sources, func(s source) bool { return len(s.ordered) > 0 }) {
		p.order = &order{}
	}
	if p.order != nil {
		p.order.take(p.requestJob)
	}
	p.FetchRest()
	p.points = p.Take(4 * p.Places())
	for s := range p.slots {
		p.slots[s].n = p.Take(4 * p.cells())
	}
	p.values = make([]layout.Section, len(p.t.Aggregates))
	each := 8 * p.cells()
	for s := range p.slots {
		slot := &p.slots[s]
		if p.order != nil && p.order.again == 0 {
			slot.found = p.Take(each * len(p.sources[s].ordered))
			for i, a := range p.sources[s].ordered {
				p.values[a] = layout.Section{At: slot.found.At + i*each, Size: each}
			}
		}
		for _, a := range slot.outputs {
			if p.values[a].Size == 0 {
				p.values[a] = p.Take(each)
			}
		}
	}
}

// Begin implements pipeline.Program.
func (p *groups) Begin(c *cuda.Context, s cuda.Stream) error {
	if p.order != nil {
		if err := p.order.claim(p.requestJob); err != nil {
			return err
		}
	}
	for i := range p.slots {
		if err := p.Clear(c, s, p.slots[i].n, 0); err != nil {
			return err
		}
	}
	return p.requestJob.Begin(c, s)
}

// of are the states of a slot.
func (p *groups) of(s *groupSlot) *launch.Runs {
	return &launch.Runs{N: p.At(s.n), Fields: p.At(s.fields), Cells: uint64(p.cells()), Parts: kernelParts(s.parts), Stored: uint32(s.stored), Custom: s.custom != nil}
}

// Reduce implements pipeline.Program.
func (p *groups) Reduce(q launch.Queue, b *pipeline.Batch) error {
	runs := p.runs(b)
	for i := range p.slots {
		s := &p.slots[i]
		from, to := &runs[s.source], p.of(s)
		values, err := p.again(q, s, from)
		if err != nil {
			return err
		}
		if p.order != nil && p.order.again > 0 {
			keys, runs := p.order.at(p.requestJob, i, b)
			if err := q.Results("value_keys", from.Cells, from.N, values, from.Cells, p.buckets.Count, keys, runs); err != nil {
				return err
			}
		}
		of := q
		if s.custom != nil {
			of = q.Of(s.custom.kernels)
		}
		if err := of.MergeRuns(&from.Runs, p.buckets.Count, &b.Groups, to, values); err != nil {
			return err
		}
	}
	return nil
}

// again is the values of a batch's runs that are aggregated again in a slot, or 0.
func (p *groups) again(q launch.Queue, s *groupSlot, from *made) (cuda.Pointer, error) {
	if p.t.Reaggregate == nil {
		return 0, nil
	}
	a, found := p.madeOf(s.source, s.outputs[0], from)
	if a == abi.Found {
		return found, nil
	}
	return from.again, q.StateRows(&from.Runs, p.buckets.Count, a, 0, from.again, 0)
}

// End implements pipeline.Program.
func (p *groups) End(c *cuda.Context, s cuda.Stream) error {
	q := p.Kernels.On(c, s)
	if p.order != nil {
		if err := p.order.upload(p.requestJob, c, s); err != nil {
			return err
		}
	}
	for i := range p.slots {
		slot := &p.slots[i]
		if slot.found.Size > 0 {
			if err := p.order.end(p.requestJob, q, i, p.At(slot.n), p.At(slot.found)); err != nil {
				return err
			}
		}
		for _, a := range slot.outputs {
			var err error
			switch out := p.At(p.values[a]); {
			case p.order != nil && p.order.again > 0:
				err = q.GroupOrder(p.order.all(p.requestJob, i, p.At(slot.n)), p.At(p.order.half), 1, out)
			case p.order != nil && ordered(p.t.Aggregates[a]): // see above
			case slot.custom != nil:
				err = q.Of(slot.custom.kernels).CustomValues(p.of(slot), p.buckets, out)
			default:
				d := p.t.Aggregates[a].Definition
				if r := p.t.Reaggregate; r != nil {
					d = r
				}
				err = q.StateRows(p.of(slot), p.buckets.Count, d.GPU.Number(), 0, out, 0)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Results implements pipeline.Program.
func (p *groups) Results(o *offload.Outcome) error {
	p.note(o)
	n := int(p.buckets.Count)
	words := (n + 63) / 64
	x := &offload.Rows{Groups: make([]int32, p.t.Groups), Each: p.t.Groups}
	for g := range x.Groups {
		x.Groups[g] = int32(g)
	}
	for i := range p.slots {
		counts, present := pipeline.View[uint32](p.Job, p.slots[i].n), make([]uint64, words*p.t.Groups)
		parallel.For(p.t.Groups, func(g int) {
			for k, of := range counts[g*n : (g+1)*n] {
				if of > 0 {
					present[g*words+k/64] |= 1 << (k % 64)
				}
			}
		})
		x.Present = append(x.Present, present)
	}
	for a := range p.values {
		x.Values = append(x.Values, pipeline.View[float64](p.Job, p.values[a]))
	}
	return p.Hand(x)
}

// order is what order statistics of groups need of all batches of a job: it stays on the device, in
// memory of the store, until the last batch is there.
type order struct {
	runs []launch.GroupRuns // by slot, which are sources; without keys where one has none
	rows []uint64           // the first row of keys of each tile of series, over all batches, and their number
	// again is the number of slots whose values, one a run, are aggregated again by the median. The row
	// of a series has one key a bucket then.
	again int

	tileRows layout.Section // tables, see launch.GroupRuns
	members  pipeline.Members
	half     layout.Section // a float64: the quantile of a median
}

// take takes device memory for the tables.
func (o *order) take(j *requestJob) {
	o.tileRows = j.Take(8 * (j.Places()/layout.Lanes + 1))
	o.members, o.half = j.TakeMembers(), j.Take(8)
}

// claim claims the memory that all batches need, which the layout says.
func (o *order) claim(j *requestJob) error {
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
	keys := 8 * layout.Lanes * rows
	each := keys + 8*len(o.rows)*layout.Lanes*int(j.buckets.Count)
	o.rows = append(o.rows, uint64(rows))
	for s := range max(o.again, len(j.sources)) { // each of which has a slot
		r := launch.GroupRuns{}
		if o.again > 0 || len(j.sources[s].ordered) > 0 {
			at, ok := j.Claim(each)
			if !ok {
				return &pipeline.Unsuited{Reason: "the samples of its groups, which order statistics need at once, need more memory than the executor has on the device"}
			}
			r.Keys, r.InRows = at, at+cuda.Pointer(keys)
		}
		o.runs = append(o.runs, r)
	}
	return nil
}

// at is where the keys of a batch stay that a slot has, and where what runs have of these.
func (o *order) at(j *requestJob, s int, b *pipeline.Batch) (keys, inRows cuda.Pointer) {
	r, row := o.runs[s], o.rows[b.Base/layout.Lanes]
	return r.Keys + cuda.Pointer(8*layout.Lanes*row), r.InRows + cuda.Pointer(8*b.Base*int(j.buckets.Count))
}

// all is what all batches have of a slot.
func (o *order) all(j *requestJob, s int, n cuda.Pointer) launch.GroupRuns {
	r := o.runs[s]
	r.TileRows, r.Members, r.First = j.At(o.tileRows), j.At(o.members.Series), j.At(o.members.First)
	r.Groups, r.Series, r.Buckets, r.GroupN = uint32(j.t.Groups), uint32(len(j.t.GroupOf)), j.buckets.Count, n
	return r
}

// end puts the order statistics of a source's groups on a stream: found has a float64 for each ordered
// aggregate, group and bucket, and n is the groups' samples.
func (o *order) end(j *requestJob, q launch.Queue, s int, n, found cuda.Pointer) error {
	r, of := o.all(j, s, n), j.sources[s].ordered
	quantiles := 0 // before the numbers of different values
	for i, a := range of {
		if quantileOf(j.t.Aggregates[a]) >= 0 {
			quantiles++
		} else if err := q.GroupDistinct(r, found+cuda.Pointer(8*i*j.t.Groups*int(j.buckets.Count))); err != nil {
			return err
		}
	}
	if quantiles == 0 {
		return nil
	}
	return q.GroupOrder(r, j.At(j.sources[s].quantiles), uint32(quantiles), found)
}

// upload copies the tables to the device.
func (o *order) upload(j *requestJob, c *cuda.Context, s cuda.Stream) error {
	return cmp.Or(
		pipeline.Upload(j.Job, c, s, o.tileRows, o.rows),
		pipeline.Upload(j.Job, c, s, o.half, []float64{0.5}),
		o.members.Upload(j.Job, c, s),
	)
}
