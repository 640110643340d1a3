// Package gpuexec evaluates aggregations over windows on an NVIDIA GPU.
//
// In goes a leaf of a query, as cpuexec offers it to an accelerator; out comes an Outcome with
// the same bits as the cores', but for what docs/gpu.md lists. A job goes through the device in
// batches of series, which are brought, decoded, windowed and reduced on several streams, so
// that one batch is copied while another is computed. Start reading at job.
package gpuexec

import (
	"errors"
	"runtime"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
)

// task is a leaf to compute.
type task struct {
	l       *cpuexec.Leaf
	consume func(cpuexec.Rows) error // takes the rows of a window alone
	stages  *Stages                  // what it took is noted here, as far as it came
}

// A job is a pipeline of batches, each of which has a slot while it is under way:
//
//	 bring  ──────► decode ────► window ────► reduce ────► (back) ─┐
//	 feeder's       slot's stream                                 │
//	 stream                                                       ▼
//	chunks and     chunks to    columns to   values to           rows to the cores,
//	where they     columns      values,      groups' states,     batch by batch
//	lie            (or both     maps         heaps, rows
//	               in one: fused)                 │
//	                                              └─ behind the last batch ─► fetch
//
// While one batch is brought, another decodes and windows, and a third is reduced: that one
// comes behind the batch before it, so that values are added in the order of the series.
//
//	memory.go    which device memory a job has, and what fits into a batch
//	pipeline.go  the stages of a batch
//	product.go   what is made of the values
//	fetch.go     what comes back, and how a job ends
type job struct {
	task
	x         *Executor
	workspace *workspace
	f         function
	maps      []deviceMap
	steps     launch.Steps
	y         *layout.Layout
	panes     *launch.Panes // or nil
	fuses     bool          // decoding and windows are one kernel
	product   product

	// Device memory, from the workspace's beginning. From outcome on it is fetched at the
	// end.
	outcome       int
	counts, fault layout.Section
	kept          layout.Section // uint32, one a map and place
	reads         layout.Section // uint64, two a step: samples in the windows, and those no earlier step had
	size          int            // of all that
	rest          cuda.Pointer   // for the slots, each so many bytes
	each          int

	total     layout.TileSize // of the batches that were put on their way
	last      cuda.Event      // of the last of them, or 0
	described int64           // bytes that describe copied
	timing    timing
}

func newJob(x *Executor, s *workspace, t task) *job {
	l := t.l
	j := &job{
		task: t, x: x, workspace: s,
		f: function{window.Of(l.Window.Func)}, steps: steps(l), product: productOf(l),
	}
	for _, m := range l.Maps {
		d, _ := mapOf(m)
		j.maps = append(j.maps, d)
	}
	j.panes = j.f.panes(j.steps)
	j.fuses = j.panes == nil && j.f.fuses(l, j.steps)
	j.stages.Fused = j.fuses
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
	err = j.x.dev.Do(j.begin)
	if err == nil {
		err = j.batches()
	}
	var fetched []byte
	if err == nil {
		fetched, err = j.product.fetch(j)
	}
	if ended := j.end(err != nil); ended != nil {
		err = errors.Join(err, ended)
	}
	runtime.KeepAlive(j.l)
	if err != nil {
		return o, err
	}
	return j.finish(fetched), nil
}
