package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/probe"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// Options configure an Executor.
type Options struct {
	// Memory is the device memory in bytes that queries are evaluated in and chunks
	// stay in, taken once. 0 means half of what is free.
	Memory uint64
	// Staging is the page-locked memory in bytes that the tables of one batch are
	// put together in, taken once for each slot. 0 means 16 MiB. Chunks that are not
	// in page-locked memory pass through 8 times as much.
	Staging int
	// Slots is the number of batches of a job under way at once, at least 3. 0 means
	// 4.
	Slots int
	// Rows is the most page-locked memory in bytes that values which are copied back
	// stay in until the matrix that they are of is released. It is taken as it is
	// needed. 0 means 1 GiB. Values that there is no room for are copied once more, as
	// all are where it is negative.
	Rows int64
}

// Executor evaluates jobs on one device: a large one at a time, and small ones
// beside it. It is safe for concurrent use. Whatever goes wrong on the device is an
// error that leaves the executor as it was, unless the device is lost (cuda.Lost);
// then all jobs fail.
type Executor struct {
	dev  *cuda.Device
	cpu  *cpuexec.Executor // says what surrounds the values
	k    *launch.Set
	link float64 // what it copies to the device, in bytes a second

	arena      cuda.Pointer
	memory     uint64
	large      workspace
	small      workspace
	store      *resident.Store
	feeder     *resident.Feeder
	lender     *pinned.Lender
	threadGoal uint32 // threads worth starting for a window kernel
	goodBatch  int    // bytes of device memory that a batch should take

	mu   sync.Mutex
	lost error
}

// New takes a device's memory and returns an executor on it. cpu is what jobs are
// opened with. The device stays the caller's.
func New(dev *cuda.Device, cpu *cpuexec.Executor, o Options) (*Executor, error) {
	if o.Staging <= 0 {
		o.Staging = 16 << 20
	}
	if o.Slots <= 0 {
		o.Slots = 4
	}
	o.Slots = max(o.Slots, 3)
	if o.Rows == 0 {
		o.Rows = 1 << 30
	}
	x := &Executor{dev: dev, cpu: cpu, feeder: resident.NewFeeder(dev), lender: pinned.NewLender(dev, o.Rows), threadGoal: uint32(dev.Multiprocessors) * 4096, goodBatch: goodBatch}
	x.large.turn, x.small.turn = make(chan struct{}, 1), make(chan struct{}, 1)
	var err error
	if x.k, err = launch.Load(dev, launch.Queries()...); err == nil {
		err = dev.Do(func(c *cuda.Context) error {
			err := x.take(c, o)
			if err != nil {
				err = errors.Join(err, x.release(c))
			}
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("preparing GPU %d: %w", dev.Ordinal, err)
	}
	return x, nil
}

// The most memory in bytes that jobs get; the rest is for chunks to stay in.
const (
	mostLarge = 6 << 30
	mostSmall = 1 << 30
)

func (x *Executor) take(c *cuda.Context, o Options) (err error) {
	if x.memory = o.Memory; x.memory == 0 {
		free, _, err := c.MemoryInfo()
		if err != nil {
			return err
		}
		x.memory = free / 2
	}
	x.memory = min(x.memory, abi.EntryReach)
	if x.arena, err = c.Alloc(x.memory); err != nil {
		return err
	}
	x.large.at, x.large.size = x.arena, min(x.memory/2, mostLarge)&^255
	x.small.at, x.small.size = x.arena+cuda.Pointer(x.large.size), min(x.memory/8, mostSmall)&^255
	jobs := x.large.size + x.small.size
	x.store = resident.NewStore(uint64(x.arena)+jobs, x.memory-jobs)
	if err := x.large.take(c, o.Slots, o.Staging); err != nil {
		return err
	}
	if err := x.small.take(c, o.Slots, o.Staging); err != nil {
		return err
	}
	if err := x.feeder.Take(c, 8*o.Staging); err != nil {
		return err
	}
	return x.measure(c)
}

// measure finds out how fast the link is.
func (x *Executor) measure(c *cuda.Context) error {
	l := x.large.slots[0]
	n := min(len(l.staging), int(x.large.size))
	for range 3 {
		took, err := probe.Timed(c, l.stream, l.marks[atCopy], l.marks[atCopied], func() error {
			return c.CopyIn(x.large.at, l.staging[:n], l.stream)
		})
		if err != nil {
			return err
		}
		x.link = max(x.link, float64(n)/(took/1000))
	}
	return nil
}

// release gives back what was taken, as far as it was.
func (x *Executor) release(c *cuda.Context) error {
	errs := []error{x.large.release(c), x.small.release(c), x.feeder.Release(c), x.lender.Release(c)}
	if x.arena != 0 {
		errs = append(errs, c.Free(x.arena))
	}
	if x.k != nil {
		errs = append(errs, x.k.Unload(c))
	}
	return errors.Join(errs...)
}

// Close gives everything back once the jobs under way are done.
func (x *Executor) Close() error {
	<-x.large.turn
	<-x.small.turn
	return x.dev.Do(x.release)
}

// Run evaluates the job's node: its windows, and as far as that is possible what
// aggregates them, on the device. An *Unsuited says that one of them cannot be, a
// *selection.CorruptError which chunk is corrupt; cpuexec's errors, and those of
// Prometheus's engine, are the job's own. Any other error is the device's.
func (x *Executor) Run(ctx context.Context, job cpuexec.Job) (*plan.Matrix, error) {
	return x.RunStages(ctx, job, &Stages{})
}

// RunStages is Run that says what the job took, as far as it came. Of several leaves
// it says that of the last.
func (x *Executor) RunStages(ctx context.Context, job cpuexec.Job, stages *Stages) (*plan.Matrix, error) {
	start := time.Now()
	defer func() { stages.Total = time.Since(start) }()
	job.Accelerator = &alone{x, stages, start}
	return x.cpu.Run(ctx, job)
}

// alone is an accelerator that declines nothing: what it cannot compute is an error.
type alone struct {
	x      *Executor
	stages *Stages
	start  time.Time
}

// Aggregates implements cpuexec.Accelerator.
func (a *alone) Aggregates(n *plan.Aggregate) bool { return Suits(n) == "" }

// Accepts implements cpuexec.Accelerator.
func (a *alone) Accepts(plan.Node) bool { return true }

// Evaluate implements cpuexec.Accelerator.
func (a *alone) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error) (cpuexec.Outcome, error) {
	opened := time.Since(a.start)
	o, err := a.x.Evaluate(ctx, l, consume)
	*a.stages = o.Stages
	a.stages.Open = opened
	return o.Outcome, err
}

// OnCores implements cpuexec.Accelerator.
func (a *alone) OnCores(*cpuexec.Leaf, time.Duration) {}

// smallJob is the most samples that a small job reads, and steps of all its series
// together: what takes a few ms.
const smallJob = 64 << 20

func isSmall(l *cpuexec.Leaf) bool {
	return l.Selection.NumSamples() <= smallJob && l.Selection.NumSeries()*l.Grid.Steps <= smallJob
}

// run computes a leaf on one of two workspaces, whichever is free.
func (x *Executor) run(ctx context.Context, t task, a, b *workspace) (o cpuexec.Outcome, err error) {
	waiting := time.Now()
	s, err := x.begin(ctx, a, b)
	t.stages.Waited += time.Since(waiting)
	if err != nil {
		return o, errors.Join(t.l.Done(), err)
	}
	defer s.leave()
	o, err = newJob(x, s, t).run()
	if failed := (*cuda.Error)(nil); errors.As(err, &failed) {
		// What the store holds may not have come there.
		x.store.Clear()
	}
	if cuda.Lost(err) {
		x.mu.Lock()
		x.lost = fmt.Errorf("the GPU was lost in an earlier job: %w", err)
		x.mu.Unlock()
	}
	return o, err
}

// begin waits for one of two workspaces to be free, rather the first. Who came first gets
// it first.
func (x *Executor) begin(ctx context.Context, a, b *workspace) (*workspace, error) {
	var s *workspace
	select {
	case <-a.turn:
		s = a
	default:
		select {
		case <-a.turn:
			s = a
		case <-b.turn:
			s = b
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := x.lostBefore(); err != nil {
		s.leave()
		return nil, err
	}
	return s, nil
}

// lostBefore is the error of all jobs once the device was lost in one.
func (x *Executor) lostBefore() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lost
}

func (s *workspace) leave() { s.turn <- struct{}{} }
