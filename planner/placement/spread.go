package placement

import (
	"context"
	"slices"
	"time"

	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan/offload"
)

// mostWaiting is the most bytes of results that several GPUs compute at once: those of later parts wait
// in memory for the first to be consumed.
const mostWaiting = 1 << 30

// spread is a leaf that all usable GPUs compute together.
type spread struct {
	*gpuexec.Split
	p       *Placer
	gpus    []gpu          // of each part
	sizes   []offload.Size // of the parts
	longest int            // the part that is expected to take longest
	took    time.Duration  // expected: until that one is done
	later   time.Duration  // expected: the same, once all GPUs have their parts' chunks
}

// usable are the GPUs that leaves may go to, of which one that failed is none for some time.
func (p *Placer) usable() []gpu {
	all, _ := p.gpus()
	now := time.Now()
	return slices.DeleteFunc(all, func(g gpu) bool { return g.Unusable(now) != "" })
}

// spread spreads a leaf over all usable GPUs, as fast as each of them is. It returns nil for what is not
// worth it: where a part is less work than Costs.Fixed, which each further part takes of the GPUs. It
// does not depend on what is where, so that the same leaf finds its chunks where it left them.
func (p *Placer) spread(l offload.Leaf, size *offload.Size) *spread {
	m := p.model.Load()
	gpus, c := p.usable(), &m.c.Device
	if len(gpus) < 2 || size.Results > mostWaiting || c.Sample*workOf(size, 0) < float64(len(gpus))*float64(c.Fixed) {
		return nil
	}
	speeds, leaves := make([]float64, len(gpus)), int64(0)
	for i, g := range gpus {
		speeds[i], leaves = m.speed(g.Name()), leaves+g.Leaves()
	}
	s := &spread{Split: gpuexec.NewSplit(l, speeds), p: p}
	if s.Split == nil {
		return nil
	}
	for k, part := range s.Parts {
		g := gpus[part.Device]
		size := m.onGPU(*size, s.Share(part), part.Selection, g)
		there, wait := size, g.Wait()
		if took := m.Estimate(size)[Device] + wait; took > s.took {
			s.took, s.longest = took, k
		}
		there.Missing = 0
		s.later = max(s.later, m.Estimate(there)[Device]+wait)
		s.gpus, s.sizes = append(s.gpus, g), append(s.sizes, size)
	}
	delay := time.Duration(leaves) * c.Fixed // by which the further parts delay other leaves
	s.took, s.later = s.took+delay, s.later+delay
	return s
}

// repeats is in how many leaves a copy has to be won back. Two H200 win that of a half back in three or
// four: a sum of rates of 1 G samples takes one 13.6 ms, the copy 25 to 30, and both are expected to take 7.
// With a link of half the speed that is seven leaves. So a dashboard that is refreshed twice a minute wins
// within four minutes.
const repeats = 8

// invest reports whether a leaf that one GPU, which has most of its chunks from earlier leaves, would
// compute sooner is spread nevertheless: later ones win the copies back, which stay where they are, so
// that leaves that are cut otherwise copy theirs once each. all are the bytes of the leaf's chunks.
func (s *spread) invest(alone time.Duration, all int64) bool {
	for k, part := range s.Parts {
		if !s.gpus[k].Keeps(part.Selection, int64(float64(all)*s.Share(part))) {
			return false
		}
	}
	return s.took-alone < repeats*(alone-s.later)
}

// compute implements gpuexec.Compute. The part of a GPU that fails goes to one that is usable.
func (s *spread) compute(ctx context.Context, part int, l offload.Leaf, consume func(*offload.Rows) error) (o pipeline.Outcome, again bool, err error) {
	o, err = s.gpus[part].Evaluate(ctx, l, consume)
	if err != nil && device.IsFault(err) {
		if others := s.p.usable(); len(others) > 0 {
			s.gpus[part], again = slices.MinFunc(others, func(a, b gpu) int { return int(a.Leaves() - b.Leaves()) }), true
		}
	}
	return o, again, err
}
