package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/resident"
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

// Evaluate computes a leaf by a program. Rows go to consume. An *Unsuited says why the leaf cannot be on
// the GPU, a *selection.CorruptError which chunk is corrupt; a *RequestError is the request's own. Any
// other error is the device's.
func (m *Machine) Evaluate(ctx context.Context, in *offload.Input, consume func(*offload.Rows) error, program func(*Job) Program, o *Outcome) error {
	start := time.Now()
	defer func() { o.Stages.Total += time.Since(start) }()
	m.Store.Sweep()
	spaces := []Workspaces{m.Large}
	if in.Selection.NumSamples() <= m.SmallJob && int64(len(in.GroupOf)*in.Windows) <= m.SmallJob {
		spaces = []Workspaces{m.Small, m.Large}
	}
	var err error
	for _, s := range spaces {
		j := &Job{
			Machine: m, copied: map[*resident.Block]bool{}, Ended: in.Ended, Stages: &o.Stages, consume: consume,
			Selected: layout.Selected{Sel: in.Selection, GroupOf: in.GroupOf, Groups: in.Groups, From: in.From, To: in.To},
		}
		err = j.run(ctx, s, program, o)
		if u := (*Unsuited)(nil); !errors.As(err, &u) || j.handed {
			break // or the large workspace has more memory
		}
	}
	if err != nil && in.Ended() != nil {
		err = &RequestError{in.Ended()}
	}
	return err
}

// run computes the job on one of some workspaces, once it is free. An error of the device forgets what
// is on it.
func (j *Job) run(ctx context.Context, of Workspaces, program func(*Job) Program, o *Outcome) (err error) {
	m, waiting := j.Machine, time.Now()
	j.Workspace, err = m.Begin(ctx, of)
	j.Stages.Waited += time.Since(waiting)
	if err != nil {
		return err
	}
	defer j.Workspace.Leave()
	j.Program = program(j)
	err = j.compute(o)
	j.unready()
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

// Run computes the job and fetches what came of it.
func (j *Job) Run() (err error) {
	if j.chain != nil {
		err = j.runChain()
	} else if err = j.Dev.Do(j.begin); err == nil {
		if err = j.batches(); err == nil {
			err = j.fetchAll()
		}
	}
	if ended := j.end(err != nil); ended != nil {
		err = errors.Join(err, ended)
	}
	runtime.KeepAlive(j.Selected.Sel)
	return err
}

// begin prepares what batches add to.
func (j *Job) begin(c *cuda.Context) error {
	s := j.Workspace.stream
	return cmp.Or(j.Clear(c, s, j.Fault, 0xFF), j.Program.Begin(c, s), c.Record(j.Workspace.ready, s))
}

// fetchAll waits for all batches and fetches what came of them: what was taken behind FetchRest,
// and the fault word.
func (j *Job) fetchAll() error {
	if j.returned != 0 {
		if err := errors.Join(j.drain(), j.wait()); err != nil {
			return err
		}
	}
	return j.Dev.Do(func(c *cuda.Context) error {
		if err := c.WaitEvent(j.Workspace.stream, j.last); err != nil {
			return err
		}
		return j.fetch(c)
	})
}

// fetch ends the job behind what is on the workspace's stream, and fetches what came of it.
func (j *Job) fetch(c *cuda.Context) (err error) {
	w := j.Workspace
	if err := cmp.Or(c.Record(w.last, w.stream), j.Program.End(c, w.stream)); err != nil {
		return err
	}
	if j.fetched, err = j.copyOut(c, w.at+cuda.Pointer(j.outcome), j.size-j.outcome); err != nil {
		return err
	}
	took, err := c.Elapsed(w.last, w.ended)
	j.Stages.Result += ms(took)
	return cmp.Or(err, j.Corrupt(View[uint64](j, j.Fault)[0]))
}

// drain waits for the batches under way, in order.
func (j *Job) drain() error {
	slots := slices.DeleteFunc(slices.Clone(j.Workspace.Slots), func(s *Slot) bool { return s.Batch == nil })
	slices.SortFunc(slots, func(a, b *Slot) int { return a.Batch.Number - b.Batch.Number })
	for _, s := range slots {
		if err := j.empty(s); err != nil {
			return err
		}
	}
	return nil
}

// copyOut copies n bytes from the device by way of the staging memory, which nothing uses any more
// once the first copy begins, and leaves them there unless it is too small.
func (j *Job) copyOut(c *cuda.Context, at cuda.Pointer, n int) (out []byte, err error) {
	s, staging := j.Workspace.stream, j.Workspace.Slots[0].Staging
	for n > 0 {
		part := staging[:min(len(staging), n)]
		err := cmp.Or(c.CopyOut(part, at, s), c.Record(j.Workspace.ended, s), c.Wait(s))
		if err != nil || out == nil && n == len(part) {
			return part, err
		}
		out = append(slices.Grow(out, n), part...)
		n, at = n-len(part), at+cuda.Pointer(len(part))
	}
	return out, nil
}

// end waits until nothing of the job is under way any more, and lets go of what it
// used.
func (j *Job) end(failed bool) error {
	var errs []error
	_ = j.wait() // it failed for another reason
	if failed {
		errs = append(errs, j.Dev.Do(func(c *cuda.Context) error {
			errs := []error{c.Wait(j.Feeder.Stream), c.Wait(j.Workspace.stream)}
			for _, s := range j.Workspace.Slots {
				errs = append(errs, c.Wait(s.Stream))
			}
			return errors.Join(errs...)
		}))
	}
	for _, s := range j.Workspace.Slots {
		if !failed {
			errs = append(errs, j.empty(s))
		}
		if s.Batch != nil {
			j.giveBack(s.Batch, errors.Join(errs...) == nil)
		}
		j.Store.Unpin(s.pinned)
		s.free()
	}
	j.publish(failed)
	j.Store.Discard(j.claimed)
	return errors.Join(errs...)
}

// Hand hands rows to what asked for the leaf, whose panic is an error of the request.
func (j *Job) Hand(x *offload.Rows) error {
	j.handed = true
	if err := parallel.Rescue(func() error { return j.consume(x) }); err != nil {
		return &RequestError{err}
	}
	return nil
}
