package gpuexec

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
)

// Options configure an Executor.
type Options = pipeline.Options

// Executor evaluates leaves of queries on one machine. It is safe for concurrent use.
type Executor struct {
	*pipeline.Machine
	cpu *cpuexec.Executor // says what surrounds the values
}

// New takes a device's memory and returns an executor on it. cpu is what jobs are
// opened with. The device stays the caller's.
func New(dev *cuda.Device, cpu *cpuexec.Executor, o Options) (*Executor, error) {
	m, err := pipeline.New(dev, o)
	if err != nil {
		return nil, err
	}
	return &Executor{m, cpu}, nil
}

// Run evaluates the job's node: its windows, and as far as that is possible what
// aggregates them, on the device. An *Unsuited says that one of them cannot be, a
// *selection.CorruptError which chunk is corrupt; cpuexec's errors, and those of
// Prometheus's engine, are the job's own. Any other error is the device's.
func (x *Executor) Run(ctx context.Context, job cpuexec.Job) (*plan.Matrix, error) {
	return x.RunStages(ctx, job, &pipeline.Stages{})
}

// RunStages is Run that says what the job took, as far as it came. Of several leaves
// it says that of the last.
func (x *Executor) RunStages(ctx context.Context, job cpuexec.Job, stages *pipeline.Stages) (*plan.Matrix, error) {
	start := time.Now()
	defer func() { stages.Total = time.Since(start) }()
	job.Accelerator = &alone{x, stages, start}
	return x.cpu.Run(ctx, job)
}

// alone is an accelerator that declines nothing: what it cannot compute is an error.
type alone struct {
	x      *Executor
	stages *pipeline.Stages
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
func (x *Executor) run(ctx context.Context, t task, a, b *pipeline.Workspace) (o cpuexec.Outcome, err error) {
	err = x.Machine.Run(ctx, a, b, t.stages, func(s *pipeline.Workspace) error {
		o, err = x.compute(s, t)
		return err
	})
	if err != nil {
		err = errors.Join(t.l.Done(), err)
	}
	return o, err
}

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
