// Package gpuexec evaluates aggregations over windows on an NVIDIA GPU.
//
// In goes a leaf of a query, as cpuexec offers it to an accelerator; out comes an Outcome with
// the same bits as the cores', but for what docs/gpu.md lists. A job goes through the device in
// batches of series, as package pipeline has it: decoded, windowed and reduced. Start reading at
// job.
package gpuexec

import (
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
)

// task is a leaf to compute.
type task struct {
	l       *cpuexec.Leaf
	consume func(cpuexec.Rows) error // takes the rows of a window alone
	stages  *pipeline.Stages         // what it took is noted here, as far as it came
}

// A job is the pipeline.Program of a leaf:
//
//	decode ────► window ────► reduce ────► (back)
//	chunks to    columns to   values to    rows to the cores, batch by batch
//	columns      values,      groups' states,
//	(or both     maps         heaps, rows
//	in one: fused)
//
//	windows.go             which kernel computes the windows
//	product.go             what is made of the values
//	outcome.go             what comes back
type job struct {
	*pipeline.Job
	l       *cpuexec.Leaf
	consume func(cpuexec.Rows) error
	x       *Executor
	f       function
	maps    []deviceMap
	steps   launch.Steps
	panes   *launch.Panes // or nil
	fuses   bool          // decoding and windows are one kernel
	product product

	// Device memory that is fetched at the end.
	counts layout.Section // an abi.SeriesCounts a place
	kept   layout.Section // uint32, one a map and place
	reads  layout.Section // uint64, two a step: samples in the windows, and those no earlier step had
}

func newJob(x *Executor, s *pipeline.Workspace, t task) *job {
	l := t.l
	j := &job{
		l: l, consume: t.consume, x: x,
		f: function{window.Of(l.Window.Func)}, steps: steps(l), product: productOf(l),
	}
	j.Job = &pipeline.Job{
		Machine: x.Machine, Workspace: s, Program: j, Ended: l.Done, Stages: t.stages, Drop: !l.Window.Func.Instant,
		Selected: layout.Selected{Sel: l.Selection, GroupOf: l.GroupOf, Groups: l.Groups},
	}
	j.Selected.From, j.Selected.To = l.Window.Reads(l.Grid)
	for _, m := range l.Maps {
		d, _ := mapOf(m)
		j.maps = append(j.maps, d)
	}
	j.panes = j.f.panes(j.steps)
	j.fuses = j.panes == nil && j.f.fuses(l, j.steps) && x.Kernels.Loaded(launch.Fused...)
	j.Stages.Fused = j.fuses
	return j
}

// run computes the leaf. Its outcome refers to no memory of the workspace.
func (j *job) run() (o cpuexec.Outcome, err error) {
	if len(j.l.GroupOf) == 0 || j.l.Grid.Steps == 0 {
		return o, nil
	}
	if err := j.place(); err != nil {
		return o, err
	}
	fetched, err := j.Run()
	if err != nil {
		return o, err
	}
	return j.finish(fetched), nil
}

// cells is the number of groups times steps.
func (j *job) cells() int { return j.l.Groups * j.l.Grid.Steps }

// place divides the workspace's memory and finds the layout.
func (j *job) place() error {
	j.product.own(j)
	j.FetchRest()
	j.product.out(j)
	j.counts = j.Take(j.Places() * int(unsafe.Sizeof(abi.SeriesCounts{})))
	j.kept = j.Take(len(j.maps) * j.Places() * int(unsafe.Sizeof(uint32(0))))
	j.reads = j.Take(2 * 8 * j.l.Grid.Steps)
	r, ok := j.Divide()
	if !ok {
		// The values of the windows may fit nevertheless, batch by batch.
		return &Unsuited{Reason: "its groups, at every step, need more memory than the executor has on the device", WindowOnly: true}
	}
	r.Steps, r.Fuses = j.l.Grid.Steps, j.fuses
	if j.panes != nil {
		r.Panes = j.panes.Bytes(j.f.GPU.Name == "Min" || j.f.GPU.Name == "Max")
	}
	if err := j.product.room(j, &r); err != nil {
		return err
	}
	return j.Lay(r)
}

// Begin implements pipeline.Program.
func (j *job) Begin(c *cuda.Context, s cuda.Stream) error {
	if err := j.product.begin(j, c, s); err != nil {
		return err
	}
	for _, at := range []layout.Section{j.counts, j.kept, j.reads} {
		if err := j.Clear(c, s, at, 0); err != nil {
			return err
		}
	}
	return nil
}

// Arrange implements pipeline.Program.
func (j *job) Arrange(s *pipeline.Slot) {
	b := s.Batch
	b.Out = launch.Output{
		Values: b.At(b.Output.Windows), Reads: b.At(b.Output.Reads),
		Counts: j.At(j.counts) + cuda.Pointer(b.Base*int(unsafe.Sizeof(abi.SeriesCounts{}))),
	}
	j.product.arrange(j, s)
}

// Decode implements pipeline.Program. Fused kernels decode and compute windows at once.
func (j *job) Decode(q launch.Queue, b *pipeline.Batch) error {
	if b.Chunks == 0 || j.fuses {
		return nil
	}
	return q.DecodeSeries(&b.Batch)
}

// Compute implements pipeline.Program: windows, the maps of their values, and counting what they
// read.
func (j *job) Compute(q launch.Queue, b *pipeline.Batch) error {
	steps := j.steps
	steps.PerThread = j.PerThread(b.Part, steps.Count)
	if err := j.window(q, b, steps); err != nil {
		return err
	}
	if err := j.apply(q, b); err != nil {
		return err
	}
	return j.product.count(j, q, b)
}

// Reduce implements pipeline.Program.
func (j *job) Reduce(q launch.Queue, b *pipeline.Batch) error { return j.product.reduce(j, q, b) }

// Back implements pipeline.Program.
func (j *job) Back(c *cuda.Context, s *pipeline.Slot) error { return j.product.back(j, c, s) }

// Deliver implements pipeline.Program.
func (j *job) Deliver(s *pipeline.Slot) error { return j.product.deliver(j, s) }

// Fetch implements pipeline.Program.
func (j *job) Fetch() ([]byte, error) { return j.product.fetch(j) }

// End implements pipeline.Program.
func (j *job) End(c *cuda.Context, s cuda.Stream) error { return j.product.end(j, c, s) }

// Wait implements pipeline.Program.
func (j *job) Wait() error { return j.product.wait() }
