package gpuexec

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
)

// Outcome is what computing a leaf came to.
type Outcome struct {
	cpuexec.Outcome
	Stages pipeline.Stages // what that took, as far as it came
}

// Evaluate computes a leaf. The rows of a window alone go to consume, as
// cpuexec.Accelerator says. An *Unsuited says why the leaf cannot be on the GPU, a
// *selection.CorruptError which chunk is corrupt; a *cpuexec.QueryError is the query's own.
// Any other error is the device's.
func (x *Executor) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error) (o Outcome, err error) {
	start := time.Now()
	defer func() { o.Stages.Total = time.Since(start) }()
	if reason := SuitsLeaf(l); reason != "" {
		return o, &Unsuited{Reason: reason}
	}
	o.Stages.Link = x.Link()
	x.Store.Sweep()
	t := task{l: l, consume: consume, stages: &o.Stages}
	if isSmall(l) {
		o.Outcome, err = x.run(ctx, t, &x.Small, &x.Large)
		if u := (*Unsuited)(nil); !errors.As(err, &u) {
			return o, err
		}
		// The other workspace has more memory.
	}
	o.Outcome, err = x.run(ctx, t, &x.Large, &x.Large)
	return o, err
}

// SuitsLeaf says why a leaf cannot be evaluated on the GPU, or nothing.
func SuitsLeaf(l *cpuexec.Leaf) string {
	if reason := Suits(l.Node()); reason != "" {
		return reason
	}
	return suitsData(l)
}
