// Package gpuexec computes leaves on an NVIDIA GPU.
//
// In goes a leaf, as it is offered to an accelerator; out come rows and an Outcome with the same bits
// as the cores', but for what docs/gpu.md lists. A leaf goes through the device in batches of series,
// as package pipeline has it: decoded, windowed and reduced. What is made of a query's leaf is here,
// of a resample request's in package resampling. Start reading at Evaluate, then job.
package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resampling"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample"
)

// Suits says why a leaf cannot be computed on the GPU, or nothing.
func Suits(l offload.Leaf) string {
	if reason := l.Unsuited(); reason != "" {
		return reason
	}
	switch l := l.(type) {
	case *cpuexec.Leaf:
		return suitsData(l)
	case *resample.Task:
		return resampling.SuitsData(l)
	}
	return fmt.Sprintf("a %T is not on the GPU", l)
}

// Evaluate computes a leaf on a machine. Rows go to consume, as offload.Accelerator says. Errors are as
// of pipeline.Machine.Evaluate.
func Evaluate(ctx context.Context, m *pipeline.Machine, l offload.Leaf, consume func(*offload.Rows) error) (o pipeline.Outcome, err error) {
	if reason := Suits(l); reason != "" {
		return o, &pipeline.Unsuited{Reason: reason}
	}
	switch l := l.(type) {
	case *cpuexec.Leaf:
		if len(l.GroupOf) > 0 && l.Windows > 0 {
			err = m.Evaluate(ctx, l.In(), consume, func(j *pipeline.Job) pipeline.Product { return productOf(j, l) }, &o)
		}
	case *resample.Task:
		err = resampling.Evaluate(ctx, m, l, consume, &o)
	}
	return o, err
}

// Compiles is about how long a driver takes to compile the kernels that a leaf needs and a machine
// lacks, which compile does for the leaves to come; 0 if it lacks none.
func Compiles(m *pipeline.Machine, l offload.Leaf) (wait time.Duration, compile func() error) {
	if t, ok := l.(*resample.Task); ok {
		return resampling.Compiles(m, t)
	}
	return 0, nil
}

// Alone is an accelerator that has one machine compute every leaf: what that cannot compute is an
// error. One request at a time may use it.
type Alone struct {
	*pipeline.Machine
	Last pipeline.Outcome // of the last leaf
}

// Suits implements offload.Accelerator.
func (*Alone) Suits(offload.Leaf) string { return "" }

// Evaluate implements offload.Accelerator.
func (a *Alone) Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (_ offload.Outcome, err error) {
	a.Last, err = Evaluate(ctx, a.Machine, l, consume)
	if request := (*pipeline.RequestError)(nil); errors.As(err, &request) {
		err = request.Err
	}
	return a.Last.Outcome, err
}

// OnCores implements offload.Accelerator.
func (*Alone) OnCores(offload.Leaf, time.Duration) {}
