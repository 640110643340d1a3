// Package gpuexec evaluates aggregations over windows on an NVIDIA GPU.
//
// In goes a leaf of a query, as cpuexec offers it to an accelerator; out comes an Outcome with
// the same bits as the cores', but for what docs/gpu.md lists. A job goes through the device in
// batches of series, as package pipeline has it: decoded, windowed and reduced. Start reading at
// job.
package gpuexec

import (
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// task is a leaf to compute.
type task struct {
	l       *cpuexec.Leaf
	consume func(cpuexec.Rows) error // takes the rows of a window alone
	stages  *pipeline.Stages         // what it took is noted here, as far as it came
}

// A job computes a leaf. What is made of the values of its windows is a product: the pipeline's
// program, of which the job has what all products do alike.
//
//	decode ────► window ────► reduce ────► (back)
//	chunks to    columns to   values to    rows to the cores, batch by batch
//	columns      values,      groups' states,
//	(or both     maps         heaps, rows
//	in one: fused)
//
//	windows.go     which kernel computes the windows
//	products.go    what is made of the values
type job struct {
	*pipeline.Job
	task
	f     function
	maps  []deviceMap
	steps launch.Steps
	panes *launch.Panes // or nil
	fuses bool          // decoding and windows are one kernel

	// Device memory.
	counts layout.Section // an abi.SeriesCounts a place
	kept   layout.Section // uint32, one a map and place
	reads  layout.Section // uint64, two a step: samples in the windows, and those no earlier step had
	stay   layout.Section // float64, the values of the windows of all places, if they stay on the device
}

// product is what a job makes of the values of its windows. Rows go back to the host batch by
// batch. What reduces values to fewer stays on the device and is fetched behind the last batch.
type product interface {
	pipeline.Program
	// own and fetched take device memory: for the device alone, and for what is fetched.
	own()
	fetched()
	// results says what was fetched.
	results(fetched []byte, to *cpuexec.Results)
}

// productOf is the product that a job's leaf asks for.
func productOf(j *job) product {
	if j.l.Aggregate == nil {
		return &rows{job: j}
	}
	switch p := aggregate.Of(j.l.Aggregate.Func).GPU; p.Kernel {
	case abi.ByRank:
		return &heaps{job: j, bottom: p.Second}
	case abi.ByQuantile:
		return &quantiles{job: j}
	default:
		return &states{job: j, op: p.Number()}
	}
}

// compute computes a leaf in a workspace. Its outcome refers to no memory of that.
func (x *Executor) compute(s *pipeline.Workspace, t task) (o cpuexec.Outcome, err error) {
	l := t.l
	if len(l.GroupOf) == 0 || l.Grid.Steps == 0 {
		return o, nil
	}
	j := &job{task: t, f: function{window.Of(l.Window.Func)}, steps: steps(l)}
	j.Job = &pipeline.Job{
		Machine: x.Machine, Workspace: s, Ended: l.Done, Stages: t.stages, Drop: !l.Window.Func.Instant,
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
	p := productOf(j)
	j.Program = p
	if err := j.place(p); err != nil {
		return o, err
	}
	fetched, err := j.Run()
	if err != nil {
		return o, err
	}
	return j.finish(p, fetched), nil
}

// cells is the number of groups times steps.
func (j *job) cells() int { return j.l.Groups * j.l.Grid.Steps }

// place divides the workspace's memory and finds the layout.
func (j *job) place(p product) error {
	rows, isRows := p.(*rows)
	p.own()
	if !isRows {
		j.FetchRest()
		p.fetched()
	}
	j.counts = j.Take(j.Places() * int(unsafe.Sizeof(abi.SeriesCounts{})))
	j.kept = j.Take(len(j.maps) * j.Places() * int(unsafe.Sizeof(uint32(0))))
	j.reads = j.Take(2 * 8 * j.l.Grid.Steps)
	if isRows {
		j.FetchRest() // nothing
	}
	r, ok := j.Divide()
	if !ok {
		// The values of the windows may fit nevertheless, batch by batch.
		return &Unsuited{Reason: "its groups, at every step, need more memory than the executor has on the device", WindowOnly: true}
	}
	r.Steps, r.Fuses = j.l.Grid.Steps, j.fuses
	if j.panes != nil {
		r.Panes = j.panes.Bytes(j.f.GPU.Pane)
	}
	if isRows {
		if !pipeline.Fits(j.l.Grid.Steps) {
			return &Unsuited{Reason: "the values of a series, at all steps, need more page-locked memory than a buffer has"}
		}
		r.Rest, r.Back = rows.tileBytes()
	}
	return j.Lay(r)
}

func (j *job) own()                             {}
func (j *job) fetched()                         {}
func (j *job) results([]byte, *cpuexec.Results) {}

// Begin implements pipeline.Program.
func (j *job) Begin(c *cuda.Context, s cuda.Stream) error {
	for _, at := range []layout.Section{j.counts, j.kept, j.reads} {
		if err := j.Clear(c, s, at, 0); err != nil {
			return err
		}
	}
	return nil
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
	if err := j.windows(q, b); err != nil {
		return err
	}
	n, at := j.steps.Count, j.At(j.reads)
	return q.StepReads(b.Out.Reads, b.Tiles, n, at, at+cuda.Pointer(8*n))
}

// windows puts the windows of a batch, and the maps of their values, on the queue.
func (j *job) windows(q launch.Queue, b *pipeline.Batch) error {
	b.Out = launch.Output{
		Values: b.At(b.Output.Windows), Reads: b.At(b.Output.Reads),
		Counts: j.At(j.counts) + cuda.Pointer(b.Base*int(unsafe.Sizeof(abi.SeriesCounts{}))),
	}
	if j.stay.Size > 0 {
		b.Out.Values = j.At(j.stay) + cuda.Pointer(8*b.Base*j.l.Grid.Steps)
	}
	steps := j.steps
	steps.PerThread = j.PerThread(b.Part, steps.Count)
	if err := j.window(q, b, steps); err != nil {
		return err
	}
	return j.apply(q, b)
}

// Reduce implements pipeline.Program.
func (j *job) Reduce(launch.Queue, *pipeline.Batch) error { return nil }

// Back implements pipeline.Program.
func (j *job) Back(*pipeline.Batch) pipeline.Back { return pipeline.Back{} }

// Consume implements pipeline.Program.
func (j *job) Consume(*pipeline.Batch, *pipeline.Returned) error { return nil }

// End implements pipeline.Program.
func (j *job) End(*cuda.Context, cuda.Stream) error { return nil }

// The device counts samples and marks absent values as the cores read them.
var (
	_ = cpuexec.SeriesCounts(abi.SeriesCounts{})
	_ = [1]int{}[abi.Absent-cpuexec.Absent]
)

// finish is the outcome of what was fetched, which is nothing of rows.
func (j *job) finish(p product, fetched []byte) (o cpuexec.Outcome) {
	o.Work = plan.Work{Chunks: j.Total.Chunks, Samples: j.Total.Samples, Bytes: int64(j.Total.Encoded)}
	if _, isRows := p.(*rows); isRows {
		return o
	}
	r := &o.Results
	r.Counts = bySeries(j, pipeline.View[cpuexec.SeriesCounts](j.Job, fetched, j.counts))
	kept := pipeline.View[uint32](j.Job, fetched, j.kept)
	r.Kept = make([][]uint32, len(j.l.Maps))
	for m, n := range j.l.Maps {
		if n.Filters() {
			r.Kept[m] = bySeries(j, kept[m*j.Places():])
		}
	}
	reads := slices.Clone(pipeline.View[int64](j.Job, fetched, j.reads))
	r.All, r.Fresh = reads[:j.l.Grid.Steps], reads[j.l.Grid.Steps:]
	p.results(fetched, r)
	return o
}

// bySeries copies what is at the place of each series, in the order of the series.
func bySeries[T any](j *job, at []T) []T {
	all := make([]T, len(j.Layout.Places))
	const block = 8192
	parallel.For((len(all)+block-1)/block, func(k int) {
		for i := k * block; i < min((k+1)*block, len(all)); i++ {
			all[i] = at[j.Layout.Places[i]]
		}
	})
	return all
}
