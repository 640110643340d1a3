package placement

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// The reasons that this package adds to those of gpuexec.
const (
	reasonCheaper = "the cores are expected to be faster"
	reasonFailed  = "the GPU failed"
	reasonCorrupt = "a chunk is corrupt, which the cores report"
	// reasonCompiling is of what takes the cores less long than compiling.
	reasonCompiling = "its kernels are being compiled for the GPU"
)

// A Placer is offered leaves.
var _ offload.Accelerator = (*Placer)(nil)

// Suits implements offload.Accelerator.
func (p *Placer) Suits(l offload.Leaf) string {
	if reason := l.Unsuited(); reason != "" {
		return reason
	}
	_, reason := p.pick(nil, "")
	return reason
}

// Decline counts a leaf that the cores evaluate, by the part of the reason in front of its
// first colon.
func (p *Placer) Decline(reason string) {
	reason, _, _ = strings.Cut(reason, ":")
	p.declined.WithLabelValues(reason).Inc()
}

// decline is the outcome of a leaf that the cores evaluate.
func (p *Placer) decline(o offload.Outcome, reason string) (offload.Outcome, error) {
	p.Decline(reason)
	o.Declined = reason
	return o, nil
}

// Evaluate implements offload.Accelerator: it has a GPU compute a leaf where that is expected to be
// faster, or in any case if forced.
func (p *Placer) Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (o offload.Outcome, err error) {
	if reason := gpuexec.Suits(l); reason != "" {
		return p.decline(o, reason)
	}
	in := l.In()
	g, reason := p.pick(in.Selection, l.Selector())
	if g == nil {
		return p.decline(o, reason)
	}
	size := l.Size()
	s, gpus, who, all := p.spread(l, &size), []gpu{g}, "the GPU is", size.Missing
	e := p.estimate(&size, in.Selection, g)
	took := e[Device]
	if s != nil && s.took >= took && !(size.Missing < all/2 && (in.Forced || e.cheaper() == Device) && s.invest(took, all)) {
		s = nil
	}
	if s != nil {
		gpus, who = s.gpus, fmt.Sprintf("%d GPUs are", len(s.gpus))
		if e[Device] = s.took; s.took >= took {
			e[Device], who = s.later, "once they have its chunks "+who
		}
		took = s.took
	}
	o.Choice = &plan.Choice{CPU: e[Cores].Microseconds(), GPU: took.Microseconds()}
	if !in.Forced {
		if e.cheaper() == Cores {
			return p.decline(o, fmt.Sprintf("%s: %s against %s", reasonCheaper, short(e[Cores]), short(e[Device])))
		}
		ready := true
		for _, g := range gpus {
			ready = g.Ready(l, e[Cores]-e[Device]) && ready
		}
		if !ready {
			return p.decline(o, reasonCompiling)
		}
		o.Reason = fmt.Sprintf("%s expected to be faster: %s against %s", who, short(e[Device]), short(e[Cores]))
	}
	var computed pipeline.Outcome
	parts := 0
	if s != nil {
		computed, err = s.Split.Evaluate(ctx, s.compute, consume)
		g, size, parts = s.gpus[s.longest], s.sizes[s.longest], len(s.Parts)
	} else {
		computed, err = g.Evaluate(ctx, l, consume)
	}
	if err != nil {
		if o.WindowOnly, reason, err = fallback(err); err != nil {
			return o, err
		}
		return p.decline(o, reason)
	}
	stages, number := &computed.Stages, g.Number()
	p.model.Load().Observe(Device, size, stages.Total-stages.Waited)
	o.Choice.Took, o.Choice.Device, o.Choice.Parts, o.Choice.Stages = stages.Total.Microseconds(), &number, parts, stages.Explain()
	computed.Choice, computed.Reason = o.Choice, o.Reason
	return computed.Outcome, nil
}

// estimate is when each executor is expected to be done with work of that size, of whose bytes some
// are on the GPU: behind what waits for the GPU, and on cores that all queries share. For a leaf on
// the cores delays what GPUs do, too, whose every query needs cores.
func (p *Placer) estimate(size *offload.Size, sel *selection.Selection, g gpu) (e Estimate) {
	m := p.model.Load()
	e[Cores] = m.Estimate(*size)[Cores] * time.Duration(max(1, p.serving.Load()))
	*size = m.onGPU(*size, 1, sel, g)
	e[Device] = m.Estimate(*size)[Device] + g.Wait()
	return e
}

// fallback says why the cores are to do what a GPU could not compute, and whether a leaf's window
// alone may be computed; or it returns the error, if that is of the request.
func fallback(err error) (windowOnly bool, reason string, _ error) {
	var request *pipeline.RequestError
	var unsuited *pipeline.Unsuited
	switch {
	case errors.As(err, &request):
		return false, "", request.Err
	case errors.As(err, &unsuited):
		return unsuited.WindowOnly, unsuited.Reason, nil
	case errors.As(err, new(*selection.CorruptError)):
		return false, reasonCorrupt, nil
	}
	return false, reasonFailed + ": " + err.Error(), nil
}

// short is a duration for reading.
func short(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

// OnCores implements offload.Accelerator. Leaves that no GPU evaluates do not count.
func (p *Placer) OnCores(l offload.Leaf, took time.Duration) {
	if m := p.model.Load(); m != nil && gpuexec.Suits(l) == "" {
		m.Observe(Cores, l.Size(), took)
	}
}

// pick chooses the usable GPU that has most of a selection's chunks. Of several it chooses the
// one with the fewest leaves. Where none is usable it says why. The selection, which the selector
// matched, may be nil.
func (p *Placer) pick(sel *selection.Selection, selector string) (best gpu, reason string) {
	gpus, reason := p.gpus()
	now := time.Now()
	begin := fnv.New32a() // each selector begins with a GPU of its own, so that ties are spread
	_, _ = begin.Write([]byte(selector))
	var most float64
	var least int64
	for i := range gpus {
		g := gpus[(i+int(begin.Sum32()>>1))%len(gpus)]
		if why := g.Unusable(now); why != "" {
			reason = why
			continue
		}
		resident, leaves := 0.0, g.Leaves()
		if sel != nil && len(gpus) > 1 {
			resident = g.ResidentShare(sel)
		}
		if best == nil || resident > most || resident == most && leaves < least {
			best, most, least = g, resident, leaves
		}
	}
	if best != nil {
		return best, ""
	}
	return nil, reason
}
