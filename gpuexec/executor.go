package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Options configure an Executor.
type Options struct {
	// Memory is the device memory in bytes that queries are evaluated in, taken
	// once. 0 means half of what is free.
	Memory uint64
	// Staging is the page-locked memory in bytes that one batch is put together
	// in, taken once for each slot. 0 means 64 MiB.
	Staging int
	// Slots is the number of batches under way at once, at least 3. 0 means 4.
	Slots int
}

// Executor evaluates jobs on one device, one at a time. It is safe for concurrent
// use. Whatever goes wrong on the device is an error that leaves the executor as
// it was, unless the device is lost (cuda.Lost); then all jobs fail.
type Executor struct {
	dev  *cuda.Device
	cpu  *cpuexec.Executor // says what surrounds the values
	k    *Kernels
	turn chan struct{} // holds a token while no job runs

	arena       cuda.Pointer
	memory      uint64
	slots       []*slot
	tables      cuda.Stream // what a job begins and ends with
	ready       cuda.Event  // the tables are
	stretchGoal uint32      // threads worth starting for a window kernel

	// Of whoever has the token.
	resident map[*selection.Selection]*resident
	lost     error
}

// slot is what a batch has for itself while it is under way.
type slot struct {
	stream  cuda.Stream
	staging []byte
	copied  cuda.Event // the staging memory may be used again
	folded  cuda.Event // its values are in the aggregates
}

// New takes a device's memory and returns an executor on it. cpu is what jobs are
// opened with. The device stays the caller's.
func New(dev *cuda.Device, cpu *cpuexec.Executor, o Options) (*Executor, error) {
	if o.Staging <= 0 {
		o.Staging = 64 << 20
	}
	if o.Slots <= 0 {
		o.Slots = 4
	}
	o.Slots = max(o.Slots, ahead+1)
	x := &Executor{
		dev: dev, cpu: cpu, turn: make(chan struct{}, 1), resident: map[*selection.Selection]*resident{},
		stretchGoal: uint32(dev.Multiprocessors) * 4096,
	}
	x.turn <- struct{}{}
	err := dev.Do(func(c *cuda.Context) error {
		err := x.take(c, o)
		if err != nil {
			err = errors.Join(err, x.release(c))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("preparing GPU %d: %w", dev.Ordinal, err)
	}
	return x, nil
}

func (x *Executor) take(c *cuda.Context, o Options) (err error) {
	if x.k, err = LoadKernels(c); err != nil {
		return err
	}
	if x.memory = o.Memory; x.memory == 0 {
		free, _, err := c.MemoryInfo()
		if err != nil {
			return err
		}
		x.memory = free / 2
	}
	if x.arena, err = c.Alloc(x.memory); err != nil {
		return err
	}
	if x.tables, err = c.NewStream(); err != nil {
		return err
	}
	if x.ready, err = c.NewEvent(false); err != nil {
		return err
	}
	for range o.Slots {
		s := &slot{}
		x.slots = append(x.slots, s)
		if s.stream, err = c.NewStream(); err != nil {
			return err
		}
		if s.copied, err = c.NewEvent(false); err != nil {
			return err
		}
		if s.folded, err = c.NewEvent(false); err != nil {
			return err
		}
		if s.staging, err = c.AllocHost(o.Staging); err != nil {
			return err
		}
	}
	return nil
}

// release gives back what was taken, as far as it was.
func (x *Executor) release(c *cuda.Context) error {
	var errs []error
	for _, s := range x.slots {
		if s.stream != 0 {
			errs = append(errs, c.DestroyStream(s.stream))
		}
		for _, e := range []cuda.Event{s.copied, s.folded} {
			if e != 0 {
				errs = append(errs, c.DestroyEvent(e))
			}
		}
		if s.staging != nil {
			errs = append(errs, c.FreeHost(s.staging))
		}
	}
	if x.ready != 0 {
		errs = append(errs, c.DestroyEvent(x.ready))
	}
	if x.tables != 0 {
		errs = append(errs, c.DestroyStream(x.tables))
	}
	for _, r := range x.resident {
		errs = append(errs, c.Free(r.at))
	}
	if x.arena != 0 {
		errs = append(errs, c.Free(x.arena))
	}
	if x.k != nil {
		errs = append(errs, x.k.Unload(c))
	}
	return errors.Join(errs...)
}

// Close gives everything back once the job under way is done.
func (x *Executor) Close() error {
	<-x.turn
	return x.dev.Do(x.release)
}

// Run evaluates the job's node. An *Unsuited says that it is not one for the GPU,
// a *selection.CorruptError which chunk is corrupt; cpuexec's errors, and those of
// Prometheus's engine, are the job's own. Any other error is the device's.
func (x *Executor) Run(ctx context.Context, job cpuexec.Job) (*plan.Matrix, error) {
	return x.RunStages(ctx, job, &Stages{})
}

// RunStages is Run that says what the job took, as far as it came.
func (x *Executor) RunStages(ctx context.Context, job cpuexec.Job, stages *Stages) (*plan.Matrix, error) {
	start := time.Now()
	defer func() { stages.Total = time.Since(start) }()
	if reason := Suits(job.Node); reason != "" {
		return nil, &Unsuited{reason}
	}
	l, err := x.cpu.OpenLeaf(ctx, job)
	stages.Open = time.Since(start)
	if err != nil {
		return nil, err
	}
	return x.Evaluate(ctx, l, stages)
}

// begin waits for the device to be free.
func (x *Executor) begin(ctx context.Context) error {
	select {
	case <-x.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	if x.lost != nil {
		x.end()
		return x.lost
	}
	return nil
}

func (x *Executor) end() { x.turn <- struct{}{} }
