package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
)

// Outcome is what computing a leaf came to.
type Outcome struct {
	offload.Outcome
	Stages Stages // what that took, as far as it came
}

// Unsuited is the error of what a GPU declines.
type Unsuited struct {
	Reason     string
	WindowOnly bool // of an aggregation, its window alone may be computed
}

func (u *Unsuited) Error() string { return "not on the GPU: " + u.Reason }

// RequestError is an error of the request that a leaf is of: it has ended, or has reached a limit.
// It says nothing about the device.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the request.
func (e *RequestError) Unwrap() error { return e.Err }

// smallJob is the most samples that a small job reads, and windows of all its series
// together: what takes a few ms.
const smallJob = 64 << 20

// Evaluate computes a leaf by a program. Rows go to consume. An *Unsuited says why the leaf cannot be on
// the GPU, a *selection.CorruptError which chunk is corrupt; a *RequestError is the request's own. Any
// other error is the device's.
func (m *Machine) Evaluate(ctx context.Context, in *offload.Input, consume func(*offload.Rows) error, program func(*Job) Program, o *Outcome) error {
	start := time.Now()
	defer func() { o.Stages.Total += time.Since(start) }()
	m.Store.Sweep()
	spaces := []*Workspace{&m.Large}
	if in.Selection.NumSamples() <= smallJob && len(in.GroupOf)*in.Windows <= smallJob {
		spaces = []*Workspace{&m.Small, &m.Large}
	}
	var err error
	for _, s := range spaces {
		j := &Job{
			Machine: m, Ended: in.Ended, Stages: &o.Stages, consume: consume,
			Selected: layout.Selected{Sel: in.Selection, GroupOf: in.GroupOf, Groups: in.Groups, From: in.From, To: in.To},
		}
		err = j.run(ctx, s, program, o)
		if u := (*Unsuited)(nil); !errors.As(err, &u) || j.handed {
			break // or the other workspace has more memory
		}
	}
	if err != nil && in.Ended() != nil {
		err = &RequestError{in.Ended()}
	}
	return err
}

// run computes the job on a workspace, or the large one, once one is free. An error of the device
// forgets what is on it.
func (j *Job) run(ctx context.Context, s *Workspace, program func(*Job) Program, o *Outcome) (err error) {
	m, waiting := j.Machine, time.Now()
	j.Workspace, err = m.Begin(ctx, s, &m.Large)
	j.Stages.Waited += time.Since(waiting)
	if err != nil {
		return err
	}
	defer j.Workspace.Leave()
	j.Program = program(j)
	err = j.compute(o)
	if failed := (*cuda.Error)(nil); errors.As(err, &failed) {
		// What the store holds may not have come there.
		m.Store.Clear()
	}
	if cuda.Lost(err) {
		lost := fmt.Errorf("the GPU was lost in an earlier job: %w", err)
		m.lost.Store(&lost)
	}
	return err
}

// compute has the job's program make its product. The outcome refers to no memory of the workspace.
func (j *Job) compute(o *Outcome) error {
	if err := j.lay(); err != nil {
		return err
	}
	if err := j.Run(); err != nil {
		return err
	}
	o.Work = plan.Work{Series: len(j.Selected.GroupOf), Chunks: j.Total.Chunks, Samples: j.Total.Samples, Bytes: int64(j.Total.Encoded)}
	return j.Program.Results(&o.Outcome)
}

// Hand hands rows to what asked for the leaf, whose panic is an error of the request.
func (j *Job) Hand(x *offload.Rows) error {
	j.handed = true
	if err := parallel.Rescue(func() error { return j.consume(x) }); err != nil {
		return &RequestError{err}
	}
	return nil
}
