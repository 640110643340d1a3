package resampling

import (
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// groups are the product of a request whose runs are merged into groups.
type groups struct {
	slots  []groupSlot
	values []layout.Section // float64 a cell, by aggregate of the request; fetched
	order  *order           // or nil
}

// groupSlot is a state for each group and bucket.
type groupSlot struct {
	source  int // that its runs are of
	parts   uint32
	custom  *program // that merges them, or nil
	fields  layout.Section
	n       layout.Section // fetched
	found   layout.Section // float64 a cell for each ordered aggregate; fetched
	outputs []int          // aggregates of the request
}

// cells is the number of groups times buckets.
func (p *groups) cells(j *job) int { return j.t.Groups * int(j.buckets.Count) }

func (p *groups) take(j *job) {
	for s, outputs := range j.t.States() {
		slot := groupSlot{source: s, outputs: outputs}
		if r := j.t.Reaggregate; r != nil {
			slot.parts, slot.custom = uint32((r.Reads | aggregate.Count).With()), j.custom[r]
			slot.source = slices.IndexFunc(j.sources, func(of source) bool { return slices.Contains(of.Outputs, outputs[0]) })
		} else {
			slot.parts, slot.custom = uint32(j.sources[s].Parts), j.sources[s].custom
		}
		fields := abi.RunFields(slot.parts)
		if slot.custom != nil {
			fields = len(slot.custom.Start)
		}
		slot.fields = j.Take(8 * fields * p.cells(j))
		p.slots = append(p.slots, slot)
	}
	if r := j.t.Reaggregate; r != nil && r.Name == "median" {
		p.order = &order{again: len(p.slots)}
		p.order.take(j)
	}
	if merges(j.t) && slices.ContainsFunc(j.sources, func(s source) bool { return len(s.ordered) > 0 }) {
		p.order = &order{}
		p.order.take(j)
	}
}

func (p *groups) fetched(j *job) {
	for s := range p.slots {
		p.slots[s].n = j.Take(4 * p.cells(j))
	}
	p.values = make([]layout.Section, len(j.t.Aggregates))
	each := 8 * p.cells(j)
	for s := range p.slots {
		slot := &p.slots[s]
		if p.order != nil && p.order.again == 0 {
			slot.found = j.Take(each * len(j.sources[s].ordered))
			for i, a := range j.sources[s].ordered {
				p.values[a] = layout.Section{At: slot.found.At + i*each, Size: each}
			}
		}
		for _, a := range slot.outputs {
			if p.values[a].Size == 0 {
				p.values[a] = j.Take(each)
			}
		}
	}
}

func (p *groups) ready(j *job) error {
	if p.order == nil {
		return nil
	}
	return p.order.claim(j)
}

func (p *groups) release(j *job) {
	if p.order != nil {
		p.order.release(j)
	}
}

func (p *groups) stays(j *job, s int, b *pipeline.Batch, m *made) {
	if p.order != nil {
		p.order.of(j, s, b, m)
	}
}

// tileBytes is what merging the squares of a tile's runs takes.
func (p *groups) tileBytes(j *job) (int, error) {
	if !slices.ContainsFunc(p.slots, groupSlot.squares) {
		return 0, nil
	}
	return 3 * 8 * int(j.buckets.Count) * layout.Lanes, nil
}

// squares reports whether the states of a slot have squared distances from the mean.
func (s groupSlot) squares() bool { return s.custom == nil && s.parts&uint32(aggregate.Squares) != 0 }

func (p *groups) begin(j *job, c *cuda.Context, s cuda.Stream) error {
	for i := range p.slots {
		if err := j.Clear(c, s, p.slots[i].n, 0); err != nil {
			return err
		}
	}
	return nil
}

// of are the states of a slot.
func (p *groups) of(j *job, s *groupSlot) *launch.Runs {
	return &launch.Runs{N: j.At(s.n), Fields: j.At(s.fields), Cells: uint64(p.cells(j)), Parts: s.parts, Custom: s.custom != nil}
}

func (p *groups) made(*job, launch.Queue, *pipeline.Batch) error { return nil }

func (p *groups) reduce(j *job, q launch.Queue, b *pipeline.Batch) error {
	runs, before := j.runs(b)
	for i := range p.slots {
		s := &p.slots[i]
		from, to := &runs[s.source], p.of(j, s)
		values, err := p.again(j, q, s, from)
		if err != nil {
			return err
		}
		if p.order != nil && p.order.again > 0 {
			if err := q.ValueKeys(&from.Runs, values, j.buckets.Count, p.order.at(j, i, b)); err != nil {
				return err
			}
		}
		of, squares := q, cuda.Pointer(0)
		if s.custom != nil {
			of = q.Of(s.custom.kernels)
		}
		if s.squares() {
			squares = before
		}
		if err := of.MergeRuns(&from.Runs, j.buckets.Count, b.Groups, to, values, squares); err != nil {
			return err
		}
	}
	return nil
}

// again is the values of a batch's runs that are aggregated again in a slot, or 0.
func (p *groups) again(j *job, q launch.Queue, s *groupSlot, from *made) (cuda.Pointer, error) {
	if j.t.Reaggregate == nil {
		return 0, nil
	}
	a, found := j.madeOf(s.source, s.outputs[0], from)
	if a == abi.Found {
		return found, nil
	}
	return from.again, q.StateValues(&from.Runs, a, from.again)
}

func (p *groups) arrange(*job, *pipeline.Slot) {}

func (p *groups) back(*job, *cuda.Context, *pipeline.Slot) error { return nil }

func (p *groups) deliver(*job, *pipeline.Slot) error { return nil }

func (p *groups) fetch(j *job) ([]byte, error) { return j.FetchAll() }

func (p *groups) end(j *job, c *cuda.Context, s cuda.Stream) error {
	q := j.Queue(c, s)
	if p.order != nil {
		if err := p.order.upload(j, c, s); err != nil {
			return err
		}
	}
	for i := range p.slots {
		slot := &p.slots[i]
		if slot.found.Size > 0 {
			if err := p.order.end(j, q, i, j.At(slot.n), j.At(slot.found)); err != nil {
				return err
			}
		}
		for _, a := range slot.outputs {
			if p.order != nil && p.order.again > 0 {
				if err := p.order.median(j, q, i, j.At(slot.n), j.At(p.values[a])); err != nil {
					return err
				}
				continue
			}
			if p.order != nil && ordered(j.t.Aggregates[a]) {
				continue
			}
			if slot.custom != nil {
				if err := q.Of(slot.custom.kernels).CustomValues(p.of(j, slot), j.buckets, j.At(p.values[a])); err != nil {
					return err
				}
				continue
			}
			kernel := aggregates[j.t.Aggregates[a].Name]
			if r := j.t.Reaggregate; r != nil {
				kernel = aggregates[r.Name]
			}
			if err := q.StateValues(p.of(j, slot), kernel, j.At(p.values[a])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *groups) results(j *job, fetched []byte) error {
	n := int(j.buckets.Count)
	words := (n + 63) / 64
	cells := &resample.Cells{Groups: make([]int32, j.t.Groups), Each: j.t.Groups}
	for g := range cells.Groups {
		cells.Groups[g] = int32(g)
	}
	for i := range p.slots {
		counts, present := pipeline.View[uint32](j.Job, fetched, p.slots[i].n), make([]uint64, words*j.t.Groups)
		parallel.For(j.t.Groups, func(g int) {
			for k, of := range counts[g*n : (g+1)*n] {
				if of > 0 {
					present[g*words+k/64] |= 1 << (k % 64)
				}
			}
		})
		cells.Present = append(cells.Present, present)
	}
	for a := range p.values {
		cells.Values = append(cells.Values, pipeline.View[float64](j.Job, fetched, p.values[a]))
	}
	return j.hand(cells)
}
