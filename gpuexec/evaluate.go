// Package gpuexec computes leaves on an NVIDIA GPU.
//
// In goes a leaf, as it is offered to an accelerator; out come rows and an Outcome with the same bits
// as the cores', but for what docs/gpu.md lists. A leaf goes through the device in batches of series,
// as package pipeline has it: decoded, windowed and reduced. Start reading at Evaluate, then queryJob
// for what is made of a query's leaf, requestJob of a resample request's.
package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
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
		return suitsQuery(l)
	case *resample.Task:
		return suitsRequest(l)
	}
	return fmt.Sprintf("a %T is not on the GPU", l)
}

// Evaluate computes a leaf on a machine. Rows go to consume, as offload.Accelerator says. Errors are as
// of pipeline.Machine.Evaluate.
func Evaluate(ctx context.Context, m *pipeline.Machine, l offload.Leaf, consume func(*offload.Rows) error) (o pipeline.Outcome, err error) {
	if reason := Suits(l); reason != "" {
		return o, &pipeline.Unsuited{Reason: reason}
	}
	if l, ok := l.(*cpuexec.Leaf); ok {
		if len(l.GroupOf) > 0 && l.Windows > 0 {
			err = m.Evaluate(ctx, l.In(), consume, func(j *pipeline.Job) pipeline.Program { return queryProduct(j, l) }, &o)
		}
		return o, err
	}
	t := l.(*resample.Task)
	start, custom := time.Now(), programsOf(t)
	if err := custom.hold(m); err != nil {
		return o, err
	}
	if len(custom) > 0 {
		took := time.Since(start)
		o.Stages.Compiled, o.Stages.Waited, o.Stages.Total = took, took, took
	}
	err = m.Evaluate(ctx, t.In(), consume, func(j *pipeline.Job) pipeline.Program { return requestProduct(j, t, custom) }, &o)
	return o, errors.Join(err, custom.release(m))
}

// Compiles is about how long a driver takes to compile the kernels that a leaf needs and a machine
// lacks, 0 if it lacks none. compile does that for the leaves to come; it is nil if the machine is
// compiling them.
func Compiles(m *pipeline.Machine, l offload.Leaf) (wait time.Duration, compile func() error) {
	t, ok := l.(*resample.Task)
	if !ok {
		return m.Kernels.Missing(kernelsOf(l.(*cpuexec.Leaf))...), nil
	}
	all := programsOf(t)
	for _, of := range all {
		if !m.Programs.Loaded(&of.launched) {
			wait += 300 * time.Millisecond
		}
	}
	wait += m.Kernels.Missing(launch.Resample...)
	return wait, func() error {
		if err := all.hold(m); err != nil {
			return err
		}
		return all.release(m)
	}
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
