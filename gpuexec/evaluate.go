package gpuexec

import (
	"context"
	"errors"
	"time"
	"weak"

	"github.com/promwarp/promwarp/cpuexec"
)

// Evaluate computes a leaf, hands what comes out to it, and says what that took, as far as it came. Its errors are those of Run.
func (x *Executor) Evaluate(ctx context.Context, l *cpuexec.Leaf, stages *Stages) error {
	start := time.Now()
	defer func() { stages.Total = time.Since(start) }()
	if reason := SuitsLeaf(l); reason != "" {
		return &Unsuited{reason}
	}
	stages.Link = x.link
	x.store.sweep()
	if isSmall(l) {
		err := x.run(ctx, l, stages, &x.small, &x.large)
		if u := (*Unsuited)(nil); !errors.As(err, &u) {
			return err
		}
		// The other seat has more memory.
	}
	return x.run(ctx, l, stages, &x.large, &x.large)
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
