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

// mostWaiting is the most bytes of results that several GPUs compute at once: most of them wait in
// memory for the first part to be consumed.
const mostWaiting = 1 << 30

// spread is a leaf that all usable GPUs compute together.
type spread struct {
	*gpuexec.Split
	usable  func(without []gpu) []gpu
	gpus    []gpu          // of each part
	tried   [][]gpu        // of each part, those that failed
	sizes   []offload.Size // of the parts
	longest int            // the part that is expected to take longest
	took    time.Duration  // expected: until that one is done
}

// usable are the GPUs that leaves may go to, but for some.
func (p *Placer) usable(without []gpu) []gpu {
	all, _ := p.gpus()
	now := time.Now()
	return slices.DeleteFunc(all, func(g gpu) bool { return slices.Contains(without, g) || g.Unusable(now) != "" })
}

// spread spreads a leaf over all usable GPUs, as fast as each of them is. It returns nil for what is not
// worth it: every part must be more work than what any leaf takes at least, which the GPUs, and the
// leaves that wait for them, lose by each further part. So the same leaf is always spread alike, and
// each GPU finds the chunks of its part.
func (p *Placer) spread(l offload.Leaf, size *offload.Size) *spread {
	m := p.model.Load()
	gpus, c := p.usable(nil), &m.c.Device
	if len(gpus) < 2 || size.Results > mostWaiting || c.Sample*workOf(size, 0) < float64(len(gpus))*float64(c.Fixed) {
		return nil
	}
	var speeds []float64
	s, leaves := &spread{usable: p.usable}, int64(0)
	for _, g := range gpus {
		speeds = append(speeds, m.Speed(g.Number()))
		leaves += g.Leaves()
	}
	if s.Split = gpuexec.NewSplit(l, speeds); s.Split == nil {
		return nil
	}
	for k, part := range s.Parts {
		g := gpus[part.Device]
		size := m.onGPU(*size, s.Share(part), part.Selection, g)
		if took := m.Estimate(size)[Device] + g.Wait(); took > s.took {
			s.took, s.longest = took, k
		}
		s.gpus, s.sizes = append(s.gpus, g), append(s.sizes, size)
	}
	s.took += time.Duration(leaves) * c.Fixed
	s.tried = make([][]gpu, len(s.gpus))
	return s
}

// ready reports whether all GPUs have the kernels that a leaf needs. Those that do not compile them.
func (s *spread) ready(l offload.Leaf, within time.Duration) bool {
	all := true
	for _, g := range s.gpus {
		all = g.Ready(l, within) && all
	}
	return all
}

// compute implements gpuexec.Compute. The part of a GPU that fails goes to one that has not failed at it.
func (s *spread) compute(ctx context.Context, part int, l offload.Leaf, consume func(*offload.Rows) error) (o pipeline.Outcome, again bool, err error) {
	o, err = s.gpus[part].Evaluate(ctx, l, consume)
	if err == nil || !device.IsFault(err) {
		return o, false, err
	}
	s.tried[part] = append(s.tried[part], s.gpus[part])
	others := s.usable(s.tried[part])
	if len(others) == 0 {
		return o, false, err
	}
	s.gpus[part] = slices.MinFunc(others, func(a, b gpu) int { return int(a.Leaves() - b.Leaves()) })
	return o, true, err
}
