package gpuexec

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/selection"
)

// Outcome is what computing a leaf came to.
type Outcome struct {
	cpuexec.Outcome
	Stages Stages // what that took, as far as it came
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
	o.Stages.Link = x.link
	x.store.Sweep()
	t := task{l: l, consume: consume, stages: &o.Stages}
	if isSmall(l) {
		o.Outcome, err = x.run(ctx, t, &x.small, &x.large)
		if u := (*Unsuited)(nil); !errors.As(err, &u) {
			return o, err
		}
		// The other workspace has more memory.
	}
	o.Outcome, err = x.run(ctx, t, &x.large, &x.large)
	return o, err
}

// SuitsLeaf says why a leaf cannot be evaluated on the GPU, or nothing.
func SuitsLeaf(l *cpuexec.Leaf) string {
	if reason := Suits(l.Node()); reason != "" {
		return reason
	}
	return suitsData(l)
}

// ResidentShare is the share, from 0 to 1, of the bytes of a leaf's slabs that are on
// the device.
func (x *Executor) ResidentShare(l *cpuexec.Leaf) float64 { return x.store.Share(l.Selection) }

// Link is how many bytes a second were measured to be copied to the device.
func (x *Executor) Link() float64 { return x.link }

// Keep copies a selection's chunks to the device, as far as they are not there, so
// that the first job over them need not. They stay as what jobs copy does: until
// others need the room, or nobody on the host has them any more.
func (x *Executor) Keep(ctx context.Context, sel *selection.Selection) error {
	if err := errors.Join(ctx.Err(), x.lostBefore()); err != nil {
		return err
	}
	return x.feeder.Keep(x.store, sel)
}

// Forget gives the device memory of a selection's chunks to others, unless a job
// uses them.
func (x *Executor) Forget(sel *selection.Selection) { x.store.Forget(sel) }
