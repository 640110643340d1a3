// Package resampling computes resample requests on an NVIDIA GPU.
//
// In goes a resample.Task, as package resample offers it to an accelerator; out come its Cells,
// with the same bits as the cores'. A task goes through the device in batches of series, as package
// pipeline has it. Of a request without groups the aggregates of each series come back batch by
// batch; otherwise states are merged into those of the groups, which come back at the end.
//
//	decode ────► count_uniqs ────► run_rows ──────────────────────► rows, batch by batch
//	chunks to    columns to    └─► merge_runs ────► state_values ─► cells, at the end
//	columns      states of runs    states of groups
//
// Start reading at Evaluate.
package resampling

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// Outcome is what computing a task came to.
type Outcome struct {
	Work   plan.Work
	Runs   int64
	Stages pipeline.Stages // what that took, as far as it came
}

// RequestError is an error of the request itself.
type RequestError struct{ error }

// Unwrap returns the error of the request.
func (e *RequestError) Unwrap() error { return e.error }

// smallTask is the most samples of a task, and buckets of all its series together, that a small
// workspace is for: what takes a few ms.
const smallTask = 64 << 20

// Evaluate computes a task. What it makes goes to consume. A *pipeline.Unsuited says why the task
// cannot be on the GPU, a *selection.CorruptError which chunk is corrupt; a *RequestError is the
// request's own. Any other error is the device's.
func Evaluate(ctx context.Context, m *pipeline.Machine, t *resample.Task, consume func(*resample.Cells) error) (o Outcome, err error) {
	start := time.Now()
	defer func() { o.Stages.Total = time.Since(start) }()
	if reason := SuitsTask(t); reason != "" {
		return o, unsuited(reason)
	}
	o.Stages.Link = m.Link()
	custom := programsOf(t)
	if err := custom.hold(m); err != nil {
		return o, err
	}
	if len(custom) > 0 {
		o.Stages.Compiled = time.Since(start)
		o.Stages.Waited = o.Stages.Compiled
	}
	defer func() { err = errors.Join(err, custom.release(m)) }()
	m.Store.Sweep()
	spaces := []*pipeline.Workspace{&m.Large}
	if t.Selection.NumSamples() <= smallTask && len(t.GroupOf)*t.Grid.N() <= smallTask {
		spaces = []*pipeline.Workspace{&m.Small, &m.Large}
	}
	for _, s := range spaces {
		err = m.Run(ctx, s, &m.Large, &o.Stages, func(s *pipeline.Workspace) error { return compute(m, s, t, custom, consume, &o) })
		if u := (*pipeline.Unsuited)(nil); !errors.As(err, &u) {
			break // or the other workspace has more memory
		}
	}
	if err != nil && t.Ended() != nil {
		err = &RequestError{t.Ended()}
	}
	return o, err
}

// job is the pipeline.Program of a task.
type job struct {
	*pipeline.Job
	t       *resample.Task
	out     *Outcome
	consume func(*resample.Cells) error
	custom  programs
	sources []source
	buckets launch.Buckets
	fuses   bool // decoding and counting are one kernel
	product product

	starts, ends layout.Section // of buckets, where a table of them is needed
	points       layout.Section // uint32 a place: runs; fetched
}

func compute(m *pipeline.Machine, s *pipeline.Workspace, t *resample.Task, custom programs, consume func(*resample.Cells) error, o *Outcome) error {
	j := &job{t: t, out: o, consume: consume, custom: custom}
	j.Job = &pipeline.Job{
		Machine: m, Workspace: s, Program: j, Ended: t.Ended, Stages: &o.Stages, Drop: true,
		Selected: layout.Selected{Sel: t.Selection, GroupOf: t.GroupOf, Groups: t.Groups},
	}
	from, to := t.Reads()
	j.Selected.From, j.Selected.To = from, to-1
	j.sources = sourcesOf(t, custom)
	j.fuses = fuses(t, j.sources)
	o.Stages.Fused = j.fuses
	g := t.Grid
	j.buckets = launch.Buckets{
		FirstStart: g.Starts[0], FirstEnd: g.Ends[0], Every: g.Every(), Later: g.Later(), Count: uint32(g.N()), Apart: g.Apart(), Since: from,
	}
	j.product = &groups{}
	if t.Groups == len(t.GroupOf) && t.Reaggregate == nil {
		j.product = &rows{}
	}
	if err := j.place(); err != nil {
		return err
	}
	defer j.product.release(j)
	if err := j.product.ready(j); err != nil {
		return err
	}
	fetched, err := j.Run()
	if err != nil {
		return err
	}
	for _, n := range pipeline.View[uint32](j.Job, fetched, j.points) {
		o.Runs += int64(n)
	}
	o.Work = plan.Work{Series: len(t.GroupOf), Chunks: j.Total.Chunks, Samples: j.Total.Samples, Bytes: int64(j.Total.Encoded)}
	return j.product.results(j, fetched)
}

// place divides the workspace's memory and finds the layout.
func (j *job) place() error {
	if j.buckets.Every == 0 {
		n := int(j.buckets.Count)
		j.starts, j.ends = j.Take(8*n), j.Take(8*n)
		j.buckets.Starts, j.buckets.Ends = j.At(j.starts), j.At(j.ends)
	}
	for i := range j.sources {
		j.sources[i].quantiles = j.Take(8 * len(j.sources[i].ordered))
	}
	j.product.take(j)
	j.FetchRest()
	j.product.fetched(j)
	j.points = j.Take(4 * j.Places())
	r, ok := j.Divide()
	if !ok {
		return unsuited("its groups, with every bucket, need more memory than the executor has on the device")
	}
	more, err := j.product.tileBytes(j)
	if err != nil {
		return err
	}
	for i := range j.sources {
		r.Runs += int(j.buckets.Count) * layout.Lanes * j.sources[i].bytes(j.t)
		r.Keys = r.Keys || len(j.sources[i].ordered) > 0 && !merges(j.t)
	}
	r.Runs += more
	r.Fuses = j.fuses
	return j.Lay(r)
}

// Begin implements pipeline.Program.
func (j *job) Begin(c *cuda.Context, s cuda.Stream) error {
	if j.buckets.Every == 0 {
		if err := errors.Join(pipeline.Upload(j.Job, c, s, j.starts, j.t.Grid.Starts), pipeline.Upload(j.Job, c, s, j.ends, j.t.Grid.Ends)); err != nil {
			return err
		}
	}
	for i := range j.sources {
		var quantiles []float64
		for _, a := range j.sources[i].ordered {
			quantiles = append(quantiles, quantileOf(j.t.Aggregates[a]))
		}
		if err := pipeline.Upload(j.Job, c, s, j.sources[i].quantiles, quantiles); err != nil {
			return err
		}
	}
	if err := j.Clear(c, s, j.points, 0); err != nil {
		return err
	}
	return j.product.begin(j, c, s)
}

// Arrange implements pipeline.Program.
func (j *job) Arrange(s *pipeline.Slot) { j.product.arrange(j, s) }

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
func (j *job) Wait() error { return nil }

// hand hands cells to whoever asked, whose error is the request's.
func (j *job) hand(cells *resample.Cells) error {
	if err := j.consume(cells); err != nil {
		return &RequestError{err}
	}
	return nil
}
