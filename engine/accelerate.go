package engine

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
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

// suits says why a leaf cannot be on a GPU, or nothing.
func (a *accelerator) suits(l offload.Leaf) string {
	if a.gpus == nil {
		return reasonNoGPUs
	}
	return a.gpus.Suits(l)
}

// leaves calls f with the leaves at and below n.
func (a *accelerator) leaves(n plan.Node, f func(leaf *cpuexec.Leaf)) {
	if l := cpuexec.LeafOf(n); l != nil && (l.Aggregate == nil || l.Unsuited() == "") {
		f(l)
		if l.Aggregate != nil {
			return
		}
	}
	for _, in := range n.Inputs() {
		a.leaves(in, f)
	}
}

// suitsAny reports whether a GPU may evaluate n or something below it.
func (a *accelerator) suitsAny(n plan.Node) (suits bool) {
	a.leaves(n, func(l *cpuexec.Leaf) { suits = suits || a.suits(l) == "" })
	return suits
}

// decline notes why the cores evaluate a node. It reports whether that was not noted yet.
func (a *accelerator) decline(n plan.Node, reason string) bool {
	d := a.of[n]
	if d == nil || reason == "" || d.Reason == reason {
		return false
	}
	d.Reason = reason
	return true
}

// Suits implements offload.Accelerator.
func (a *accelerator) Suits(l offload.Leaf) string {
	reason := a.suits(l)
	if a.decline(nodeOf(l), reason) && a.gpus != nil {
		a.gpus.Decline(reason)
	}
	return reason
}

// nodeOf is the node of a query's leaf.
func nodeOf(l offload.Leaf) plan.Node { return l.(*cpuexec.Leaf).Node() }

// Evaluate implements offload.Accelerator.
func (a *accelerator) Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (offload.Outcome, error) {
	window, n := l.(*cpuexec.Leaf).Window, nodeOf(l)
	ctx, span := tracing.Start(ctx, "leaf on a GPU")
	o, err := a.gpus.Evaluate(ctx, l, consume)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("function", window.Func.Name), attribute.String("declined", o.Declined))
	}
	tracing.End(span, err)
	if o.Choice != nil {
		a.of[n].Choice = o.Choice
	}
	if err != nil || o.Declined != "" {
		a.decline(n, o.Declined)
		return o, err
	}
	for {
		if d := a.of[n]; d != nil {
			d.Executor = plan.OnGPU
		}
		if n == plan.Node(window) {
			return o, nil
		}
		n = n.Inputs()[0] // of an aggregation without a parameter that varies, or a map
	}
}

// OnCores implements offload.Accelerator.
func (a *accelerator) OnCores(l offload.Leaf, took time.Duration) {
	a.gpus.OnCores(l, took)
	if c := a.of[nodeOf(l)].Choice; c != nil {
		c.Took = took.Microseconds()
	}
}
