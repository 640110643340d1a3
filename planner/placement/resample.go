package placement

import (
	"context"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resampling"
	"github.com/promwarp/promwarp/resample"
)

// A Placer is offered resample requests.
var _ resample.Accelerator = (*Placer)(nil)

// SuitsResample implements resample.Accelerator.
func (p *Placer) SuitsResample(r *resample.Plan) string {
	if reason := resampling.Suits(r); reason != "" {
		return reason
	}
	_, reason := p.pick(nil, "")
	return reason
}

// Resample implements resample.Accelerator: it has a GPU compute a request where that is expected
// to be faster, or in any case if forced.
func (p *Placer) Resample(ctx context.Context, t *resample.Task, consume func(*resample.Cells) error, forced bool) (o resample.Outcome, err error) {
	if reason := resampling.SuitsTask(t); reason != "" {
		return p.declineTask(reason)
	}
	g, reason := p.pick(t.Selection, fmt.Sprint(t.Selectors))
	if g == nil {
		return p.declineTask(reason)
	}
	size := SizeOfTask(t)
	e, reason := p.estimate(&size, t.Selection, g, forced)
	if reason == "" && !forced {
		if wait := g.Compiles(t); wait > 0 && e[Device]+wait >= e[Cores] {
			g.Compile(t)
			reason = reasonCompiling
		}
	}
	if reason != "" {
		return p.declineTask(reason)
	}
	computed, err := g.Resample(ctx, t, consume)
	if err != nil {
		if _, reason, err = fallback(t.Ended, err); err != nil {
			return o, err
		}
		return p.declineTask(reason)
	}
	s := &computed.Stages
	p.model.Load().observe(Device, size, s.Total-s.Waited)
	o = resample.Outcome{Reason: "the request asks for it", Work: computed.Work, Runs: computed.Runs, Stages: stages(s)}
	if !forced {
		o.Reason = fmt.Sprintf("the GPU is expected to be faster: %s against %s", short(e[Device]), short(e[Cores]))
	}
	return o, nil
}

// reasonCompiling is why cores compute a request that would take them less long than compiling.
const reasonCompiling = "its kernels are being compiled for the GPU"

// declineTask is the outcome of a request that the cores compute.
func (p *Placer) declineTask(reason string) (resample.Outcome, error) {
	p.Decline(reason)
	return resample.Outcome{Declined: reason}, nil
}

// TaskOnCores implements resample.Accelerator.
func (p *Placer) TaskOnCores(t *resample.Task, took time.Duration) {
	if m := p.model.Load(); m != nil && resampling.SuitsTask(t) == "" {
		m.observe(Cores, SizeOfTask(t), took)
	}
}

// stages are what a request took on a GPU, by the device's own clock but for the first two.
func stages(s *pipeline.Stages) (all []resample.Stage) {
	if s.Compiled > 0 {
		all = append(all, resample.Stage{Name: "compile", Micros: s.Compiled.Microseconds()})
	}
	for _, stage := range []struct {
		name string
		took time.Duration
	}{
		{"device wait", s.Waited - s.Compiled}, {"prepare", s.Prepare}, {"transfer", s.Copy}, {"decode", s.Decode},
		{"count_uniqs", s.Window}, {"merge", s.Reduce}, {"fetch back", s.Result},
	} {
		all = append(all, resample.Stage{Name: stage.name, Micros: stage.took.Microseconds()})
	}
	return all
}
