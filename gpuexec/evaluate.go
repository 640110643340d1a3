package gpuexec

import (
	"context"
	"errors"
	"time"
	"weak"

	"github.com/promwarp/promwarp/cpuexec"
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
	x.store.sweep()
	t := task{l: l, consume: consume, stages: &o.Stages}
	if isSmall(l) {
		o.Outcome, err = x.run(ctx, t, &x.small, &x.large)
		if u := (*Unsuited)(nil); !errors.As(err, &u) {
			return o, err
		}
		// The other seat has more memory.
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
func (x *Executor) ResidentShare(l *cpuexec.Leaf) float64 {
	var all, there int
	x.store.mu.Lock()
	defer x.store.mu.Unlock()
	for k := range l.Selection.NumSlabs() {
		slab := l.Selection.Slab(k)
		all += len(slab.Bytes())
		if x.store.slabs[weak.Make(slab)] != nil {
			there += len(slab.Bytes())
		}
	}
	return float64(there) / float64(max(all, 1))
}

// Link is how many bytes a second were measured to be copied to the device.
func (x *Executor) Link() float64 { return x.link }
