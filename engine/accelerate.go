package engine

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
)

const (
	reasonNoGPUs  = "no GPU is to be used (--gpu.mode=off)"
	reasonForesee = "a GPU or the cores evaluate it, whichever is expected to be faster with the samples it reads"
)

// accelerator offers the leaves of a plan to the GPUs and notes in the plan's
// decisions who evaluated them, and why.
type accelerator struct {
	gpus *placement.Placer // nil where none are to be used
	of   map[plan.Node]*plan.Decision
	mode Mode
}

// accelerator returns what computes leaves of the plan in place of the cores, or nil.
func (q *query) accelerator() cpuexec.Accelerator {
	if a := q.accelerates(); a != nil {
		return a
	}
	return nil
}

func (q *query) accelerates() *accelerator {
	if q.request.Mode == GPU || q.request.Mode == Auto && q.e.opts.GPUs != nil {
		return &accelerator{gpus: q.e.opts.GPUs, of: q.plan.Of, mode: q.request.Mode}
	}
	return nil
}

// suits says why a node cannot be on a GPU, or nothing.
func (a *accelerator) suits(n plan.Node) string {
	if a.gpus == nil {
		return reasonNoGPUs
	}
	return a.gpus.Suits(n)
}

// Aggregates implements cpuexec.Accelerator.
func (a *accelerator) Aggregates(n *plan.Aggregate) bool {
	return gpuexec.Suits(n) == ""
}

// leaves calls f with the leaves at and below n.
func (a *accelerator) leaves(n plan.Node, f func(leaf plan.Node)) {
	switch n := n.(type) {
	case *plan.Window:
		f(n)
	case *plan.Aggregate:
		if a.Aggregates(n) {
			f(n)
			return
		}
	}
	for _, in := range n.Inputs() {
		a.leaves(in, f)
	}
}

// decline notes why the cores evaluate a node.
func (a *accelerator) decline(n plan.Node, reason string) {
	if d := a.of[n]; d != nil && reason != "" {
		d.Reason = reason
	}
}

// Accepts implements cpuexec.Accelerator.
func (a *accelerator) Accepts(n plan.Node) bool {
	reason := a.suits(n)
	if reason == "" {
		return true
	}
	if a.gpus != nil {
		a.gpus.Decline(reason)
	}
	a.decline(n, reason)
	return false
}

// Evaluate implements cpuexec.Accelerator.
func (a *accelerator) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error) (cpuexec.Outcome, error) {
	ctx, span := tracing.Start(ctx, "leaf on a GPU")
	o, err := a.gpus.Evaluate(ctx, l, consume, a.mode == GPU)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("function", l.Window.Func.Name), attribute.String("declined", o.Declined))
	}
	tracing.End(span, err)
	d := a.of[l.Node()]
	if o.Estimated {
		d.Choice = &plan.Choice{
			CPU: o.Estimate[placement.Cores].Microseconds(), GPU: o.Estimate[placement.Device].Microseconds(), Took: o.Stages.Total.Microseconds(),
		}
	}
	if err != nil || o.Declined != "" {
		a.decline(l.Node(), o.Declined)
		return o.Outcome.Outcome, err
	}
	d.Choice.Device, d.Choice.Stages = &o.GPU, stages(&o.Stages)
	for _, n := range plan.Path(l.Node(), l.Window) {
		if d := a.of[n]; d != nil {
			d.Executor = plan.OnGPU
		}
	}
	return o.Outcome.Outcome, nil
}

func stages(s *pipeline.Stages) *plan.DeviceStages {
	return &plan.DeviceStages{
		Batches: s.Batches, Copied: s.CopiedBytes, Resident: s.ResidentBytes,
		Waited: s.Waited.Microseconds(), Prepare: s.Prepare.Microseconds(), Copy: s.Copy.Microseconds(),
		Decode: s.Decode.Microseconds(), Window: s.Window.Microseconds(), Reduce: s.Reduce.Microseconds(), Result: s.Result.Microseconds(),
		CopyRate: s.CopyRate(), LinkShare: s.LinkShare(), Overlap: s.Overlap(),
	}
}

// OnCores implements cpuexec.Accelerator.
func (a *accelerator) OnCores(l *cpuexec.Leaf, took time.Duration) {
	a.gpus.OnCores(l, took)
	if c := a.of[l.Node()].Choice; c != nil {
		c.Took = took.Microseconds()
	}
}

// foreseeDevices says of the leaves of a query that is not run who may evaluate them.
func (q *query) foreseeDevices() {
	a := q.accelerates()
	if a == nil || q.plan.Node == nil {
		return
	}
	a.leaves(q.plan.Node, func(n plan.Node) {
		reason := a.suits(n)
		if reason == "" && a.mode == Auto {
			reason = reasonForesee
		}
		a.decline(n, reason)
	})
}
