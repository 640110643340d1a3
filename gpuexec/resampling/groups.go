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
	*job
	slots  []groupSlot
	values []layout.Section // float64 a cell, by aggregate of the request; fetched
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
func (p *groups) cells() int { return p.t.Groups * int(p.buckets.Count) }

func (p *groups) take() {
	for s, outputs := range p.t.States() {
		slot := groupSlot{source: s, outputs: outputs}
		if r := p.t.Reaggregate; r != nil {
			slot.parts, slot.custom = uint32((r.Reads | aggregate.Count).With()), p.custom[r]
			slot.source = slices.IndexFunc(p.sources, func(of source) bool { return slices.Contains(of.Outputs, outputs[0]) })
		} else {
			slot.parts, slot.custom = uint32(p.sources[s].Parts), p.sources[s].custom
		}
		fields := abi.RunFields(slot.parts)
		if slot.custom != nil {
			fields = len(slot.custom.Start)
		}
		slot.fields = p.Take(8 * fields * p.cells())
		p.slots = append(p.slots, slot)
	}
	if r := p.t.Reaggregate; r != nil && r.Name == "median" {
		p.order = &order{again: len(p.slots)}
		p.order.take(p.job)
	}
	if merges(p.t) && slices.ContainsFunc(p.sources, func(s source) bool { return len(s.ordered) > 0 }) {
		p.order = &order{}
		p.order.take(p.job)
	}
}

func (p *groups) fetched() {
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

func (p *groups) room(r *layout.Room) error {
	if slices.ContainsFunc(p.slots, groupSlot.squares) {
		r.Runs += 3 * 8 * int(p.buckets.Count) * layout.Lanes // what merging them takes
	}
	return nil
}

// squares reports whether the states of a slot have squared distances from the mean.
func (s groupSlot) squares() bool { return s.custom == nil && s.parts&uint32(aggregate.Squares) != 0 }

// Begin implements pipeline.Program.
func (p *groups) Begin(c *cuda.Context, s cuda.Stream) error {
	for i := range p.slots {
		if err := p.Clear(c, s, p.slots[i].n, 0); err != nil {
			return err
		}
	}
	return p.job.Begin(c, s)
}

// of are the states of a slot.
func (p *groups) of(s *groupSlot) *launch.Runs {
	return &launch.Runs{N: p.At(s.n), Fields: p.At(s.fields), Cells: uint64(p.cells()), Parts: s.parts, Custom: s.custom != nil}
}

// Reduce implements pipeline.Program.
func (p *groups) Reduce(q launch.Queue, b *pipeline.Batch) error {
	runs, before := p.runs(b)
	for i := range p.slots {
		s := &p.slots[i]
		from, to := &runs[s.source], p.of(s)
		values, err := p.again(q, s, from)
		if err != nil {
			return err
		}
		if p.order != nil && p.order.again > 0 {
			if err := q.ValueKeys(&from.Runs, values, p.buckets.Count, p.order.at(p.job, i, b)); err != nil {
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
		if err := of.MergeRuns(&from.Runs, p.buckets.Count, b.Groups, to, values, squares); err != nil {
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
	return from.again, q.StateValues(&from.Runs, a, from.again)
}

// End implements pipeline.Program.
func (p *groups) End(c *cuda.Context, s cuda.Stream) error {
	q := p.Queue(c, s)
	if p.order != nil {
		if err := p.order.upload(p.job, c, s); err != nil {
			return err
		}
	}
	for i := range p.slots {
		slot := &p.slots[i]
		if slot.found.Size > 0 {
			if err := p.order.end(p.job, q, i, p.At(slot.n), p.At(slot.found)); err != nil {
				return err
			}
		}
		for _, a := range slot.outputs {
			if p.order != nil && p.order.again > 0 {
				if err := p.order.median(p.job, q, i, p.At(slot.n), p.At(p.values[a])); err != nil {
					return err
				}
				continue
			}
			if p.order != nil && ordered(p.t.Aggregates[a]) {
				continue
			}
			if slot.custom != nil {
				if err := q.Of(slot.custom.kernels).CustomValues(p.of(slot), p.buckets, p.At(p.values[a])); err != nil {
					return err
				}
				continue
			}
			kernel := aggregates[p.t.Aggregates[a].Name]
			if r := p.t.Reaggregate; r != nil {
				kernel = aggregates[r.Name]
			}
			if err := q.StateValues(p.of(slot), kernel, p.At(p.values[a])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *groups) results(fetched []byte) error {
	n := int(p.buckets.Count)
	words := (n + 63) / 64
	cells := &resample.Cells{Groups: make([]int32, p.t.Groups), Each: p.t.Groups}
	for g := range cells.Groups {
		cells.Groups[g] = int32(g)
	}
	for i := range p.slots {
		counts, present := pipeline.View[uint32](p.Job, fetched, p.slots[i].n), make([]uint64, words*p.t.Groups)
		parallel.For(p.t.Groups, func(g int) {
			for k, of := range counts[g*n : (g+1)*n] {
				if of > 0 {
					present[g*words+k/64] |= 1 << (k % 64)
				}
			}
		})
		cells.Present = append(cells.Present, present)
	}
	for a := range p.values {
		cells.Values = append(cells.Values, pipeline.View[float64](p.Job, fetched, p.values[a]))
	}
	return p.hand(cells)
}
