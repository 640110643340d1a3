package placement

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resampling"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// Placement says who evaluated a leaf, and why.
type Placement struct {
	gpuexec.Outcome          // zero but for Declined and WindowOnly where the cores are to evaluate it
	Estimated       bool     // Estimate is set
	Estimate        Estimate // the GPU's includes waiting for it
	GPU             int      // the GPU's number, where one computed it
}

// The reasons that this package adds to those of gpuexec.
const (
	reasonCheaper = "the cores are expected to be faster"
	reasonFailed  = "the GPU failed"
	reasonCorrupt = "a chunk is corrupt, which the cores report"
)

// Suits says why a node cannot be evaluated on any GPU at present, whatever its
// data, or nothing.
func (p *Placer) Suits(n plan.Node) string {
	if reason := gpuexec.Suits(n); reason != "" {
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
func (p *Placer) decline(o Placement, reason string) (Placement, error) {
	p.Decline(reason)
	o.Declined = reason
	return o, nil
}

// Evaluate has a leaf computed by a GPU where that is expected to be faster, or in any case
// if forced, and otherwise declines it. The rows of a window alone go to consume, as
// cpuexec.Accelerator says. Its error is the query's.
func (p *Placer) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error, forced bool) (o Placement, err error) {
	if reason := gpuexec.SuitsLeaf(l); reason != "" {
		return p.decline(o, reason)
	}
	g, reason := p.pick(l.Selection, l.Window.Scan.String())
	if g == nil {
		return p.decline(o, reason)
	}
	size := SizeOf(l)
	if o.Estimate, reason = p.estimate(&size, l.Selection, g, forced); reason != "" {
		o.Estimated = true
		return p.decline(o, reason)
	}
	o.Estimated = true
	computed, err := g.Evaluate(ctx, l, consume)
	if err != nil {
		if o.WindowOnly, reason, err = fallback(l.Done, err); err != nil {
			return o, err
		}
		return p.decline(o, reason)
	}
	o.Outcome, o.GPU = computed, g.Number()
	p.model.Load().observe(Device, size, o.Stages.Total-o.Stages.Waited)
	return o, nil
}

// estimate is when each executor is expected to be done with work of that size, of whose bytes some
// are on the GPU: behind what waits for the GPU, and on cores that all queries share. For a leaf on
// the cores delays what GPUs do, too, whose every query needs cores. It says why the cores are to
// do the work, if they are.
func (p *Placer) estimate(size *Size, sel *selection.Selection, g gpu, forced bool) (e Estimate, reason string) {
	size.Missing = int64(float64(size.Missing) * (1 - g.ResidentShare(sel)))
	e = p.model.Load().estimate(*size)
	e[Device] += g.Wait()
	e[Cores] *= time.Duration(max(1, p.serving.Load()))
	if !forced && e.cheaper() == Cores {
		reason = fmt.Sprintf("%s: %s against %s", reasonCheaper, short(e[Cores]), short(e[Device]))
	}
	return e, reason
}

// fallback says why the cores are to do what a GPU could not compute, and whether a leaf's window
// alone may be computed; or it returns the error, if that is of whoever asked.
func fallback(ended func() error, err error) (windowOnly bool, reason string, _ error) {
	var query *cpuexec.QueryError
	var request *resampling.RequestError
	var unsuited *gpuexec.Unsuited
	var corrupt *selection.CorruptError
	switch {
	case errors.As(err, &query):
		return false, "", query
	case errors.As(err, &request):
		return false, "", request.Unwrap()
	case ended() != nil:
		return false, "", ended()
	case errors.As(err, &unsuited):
		return unsuited.WindowOnly, unsuited.Reason, nil
	case errors.As(err, &corrupt):
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

// OnCores tells how long the cores took for a leaf. Leaves with start timestamps do not
// count: no GPU evaluates them.
func (p *Placer) OnCores(l *cpuexec.Leaf, took time.Duration) {
	if m := p.model.Load(); m != nil && !l.Starts {
		m.observe(Cores, SizeOf(l), took)
	}
}

// pick chooses the usable GPU that has most of a selection's chunks. Of several it chooses the
// one with the fewest leaves. Where none is usable it says why. The selection, which the selector
// matched, may be nil.
func (p *Placer) pick(sel *selection.Selection, selector string) (best gpu, reason string) {
	gpus, reason := p.gpus()
	now := time.Now()
	var most float64
	var least int64
	for i := range gpus {
		// Each selector begins with a GPU of its own, so that ties are spread.
		g := gpus[(i+hash(selector))%len(gpus)]
		if why := g.Unusable(now); why != "" {
			reason = why
			continue
		}
		resident, leaves := 0.0, g.Leaves()
		if sel != nil {
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

// hash is a number that is the same for the same selector.
func hash(selector string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(selector))
	return int(h.Sum32() >> 1)
}

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
