package gpuexec

import (
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan/offload"
)

// A queryJob computes a leaf of a query. A product says what is made of the values of its windows:
// it is the pipeline's program, and the job has what all products do alike.
//
//	decode ────► window ────► reduce ────► (back)
//	chunks to    columns to   values to    rows to the cores, batch by batch
//	columns      values,      groups' states,
//	(or both     maps         heaps, rows
//	in one: fused)
//
//	windows.go     which kernel computes the windows
//	products.go    what is made of the values
//	rows.go        values that come back as they are
type queryJob struct {
	*pipeline.Job
	l     *cpuexec.Leaf
	f     *window.Function
	steps launch.Steps
	panes *launch.Panes // or nil
	// recent says that window_recent computes the windows: they overlap, and hold few samples at regular times.
	recent bool

	// Device memory.
	counts layout.Section // an abi.SeriesCounts a lane
	kept   layout.Section // uint32, one a map and lane
	reads  layout.Section // uint64, two a step: see offload.Results; empty where they are not asked for
	zeros  layout.Section // what a job begins with zeros in: all these, and what its product has before them
	stay   layout.Section // float64, the values of the windows of all lanes, if they stay on the device
}

// newQueryJob is a job that computes a leaf, by panes where windows share much.
func newQueryJob(of *pipeline.Job, l *cpuexec.Leaf) *queryJob {
	j := &queryJob{Job: of, l: l, f: window.Of(l.Window.Func), steps: steps(l)}
	if p, ok := launch.PanesOf(j.steps, j.f.GPU.Pane == abi.TotalBytes); ok && slices.Contains(abi.Strategies[j.f.GPU.Kernel], abi.Panes) {
		j.panes = &p
	}
	s := j.steps
	j.recent = j.f.GPU.Recent && s.Interval > 0 && s.Interval <= s.Width/2 && s.Width < 1<<31 &&
		inWindow(l)*(1+float64(s.Interval)/float64(s.Width)) < recentMost && (regular(l) || math.IsInf(recentMost, 1))
	return j
}

// kernelsOf are the kernels that a leaf needs; fused ones, which are compiled after all others of
// queries, take the place of some.
func kernelsOf(l *cpuexec.Leaf) (ks []launch.Kernel) {
	j := newQueryJob(nil, l)
	ks = append(ks, launch.Decoder(l.Selection.Has(chunkenc.EncXOR2)))
	if j.panes != nil && j.panes.Steps > 1 {
		ks = append(ks, "window_totals", "window_slide")
	} else if j.panes != nil {
		ks = append(ks, "window_panes", "window_join")
	} else {
		k, _ := j.kernel("window_")
		ks = append(ks, k)
	}
	if l.CountSamples {
		ks = append(ks, "window_reads")
	}
	if len(l.Maps) > 0 {
		ks = append(ks, "map_values")
	}
	if l.Aggregate == nil {
		return append(ks, "series_rows")
	}
	switch aggregate.Of(l.Aggregate.Func).GPU.Kernel {
	case abi.ByRank:
		return append(ks, "group_rank")
	case abi.ByQuantile:
		return append(ks, "group_quantile")
	default:
		return append(ks, "group_accumulate", "group_result")
	}
}

// queryProduct is the product that a leaf asks for. Rows go back to the host batch by batch. What
// reduces values to fewer stays on the device and is fetched behind the last batch.
func queryProduct(of *pipeline.Job, l *cpuexec.Leaf) pipeline.Program {
	j := newQueryJob(of, l)
	j.Drop = !l.Window.Func.Instant
	// Fused kernels are for windows that share no sample, as those of dashboards over weeks, whose steps
	// are longer than their windows.
	if slices.Contains(abi.Strategies[j.f.GPU.Kernel], abi.Fused) && (j.steps.Count == 1 || j.steps.Width <= j.steps.Interval) {
		j.Fused = j.panes == nil && !l.CountSamples && j.Fuses(l.Selection, j.steps.Width) && !j.Packs(l.Selection) && j.Kernels.Loaded(launch.Fused...)
	}
	if l.Aggregate == nil {
		return &queryRows{j, rows{kinds: 1, width: l.Grid.Steps, bitmaps: 1, ready: true}}
	}
	switch p := aggregate.Of(l.Aggregate.Func).GPU; p.Kernel {
	case abi.ByRank:
		return &heaps{queryJob: j, bottom: p.Second}
	case abi.ByQuantile:
		return &quantiles{queryJob: j}
	default:
		return &states{queryJob: j, policy: p}
	}
}

// cells is the number of groups times steps.
func (j *queryJob) cells() int { return j.l.Groups * j.l.Grid.Steps }

// longest is the longest window, in intervals, of a large job that is a chain, which does not stop between batches.
const longest = 64

// Room implements pipeline.Program.
func (j *queryJob) Room(r *layout.Room) error {
	r.Steps = j.l.Grid.Steps
	r.Long = j.panes == nil && r.Steps > 1 && j.steps.Width > longest*j.steps.Interval
	if j.panes != nil {
		r.Panes = j.panes.Bytes(j.f.GPU.Pane)
	}
	return nil
}

// takeNotes takes device memory for what is noted of each series and step, which begins with zeros, as what
// was taken since a section was does. That one may be empty.
func (j *queryJob) takeNotes(since layout.Section) {
	j.counts = j.Take(j.Places() * int(unsafe.Sizeof(abi.SeriesCounts{})))
	j.kept = j.Take(len(j.l.Maps) * j.Places() * int(unsafe.Sizeof(uint32(0))))
	counted := 0
	if j.l.CountSamples {
		counted = j.l.Grid.Steps
	}
	j.reads = j.Take(2 * 8 * counted)
	if since.Size == 0 {
		since = j.counts
	}
	j.zeros = layout.Section{At: since.At, Size: j.reads.At + j.reads.Size - since.At}
}

// Begin implements pipeline.Program.
func (j *queryJob) Begin(c *cuda.Context, s cuda.Stream) error {
	return j.Clear(c, s, j.zeros, 0)
}

// Compute implements pipeline.Program.
func (j *queryJob) Compute(q launch.Queue, b *pipeline.Batch) error {
	return j.windows(q, b, j.At(j.reads))
}

// windows puts the windows of a batch on the queue, counting what they read, and the maps of their
// values.
func (j *queryJob) windows(q launch.Queue, b *pipeline.Batch, reads cuda.Pointer) error {
	b.Out = launch.Output{
		Values: b.At(b.Output.Windows),
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
	if j.l.CountSamples {
		fresh := reads + cuda.Pointer(8*steps.Count)
		if err := q.Window("window_reads", &b.Batch, steps, j.l.Window.Func.Instant, reads, fresh); err != nil {
			return err
		}
	}
	return j.apply(q, b)
}

// The device counts samples and marks absent values as the cores read them.
var (
	_ = offload.SeriesCounts(abi.SeriesCounts{})
	_ = [1]int{}[abi.Absent-dense.Absent]
)

// resultsMemory has *offload.Results of earlier queries: the counts of 100 000 series are 1.2 MB, and values
// of a dashboard are 0.5 MB, which the system would have to clear, and the collector to find, for each query.
var resultsMemory = sync.Pool{New: func() any { return new(offload.Results) }}

// mostReused is how many values results may have whose memory is used again.
const mostReused = 1 << 20

// takeMemory gives results memory for the counts of n series, and for values.
func takeMemory(r *offload.Results, n int) {
	memory := resultsMemory.Get().(*offload.Results)
	r.Counts, r.Values = slices.Grow(memory.Counts[:0], n)[:n], memory.Values[:0]
	r.Release = func() {
		if memory.Counts, memory.Values = r.Counts, r.Values; len(r.Values) <= mostReused {
			resultsMemory.Put(memory)
		}
	}
}

// note notes what was fetched besides the values.
func (j *queryJob) note(r *offload.Results) {
	n := len(j.l.GroupOf)
	takeMemory(r, n)
	copy(r.Counts, pipeline.View[offload.SeriesCounts](j.Job, j.counts))
	kept := pipeline.View[uint32](j.Job, j.kept)
	r.Kept = make([][]uint32, len(j.l.Maps))
	for i, m := range j.l.Maps {
		if m.Filters() {
			r.Kept[i] = slices.Clone(kept[i*j.Places():][:n])
		}
	}
	reads := slices.Clone(pipeline.View[int64](j.Job, j.reads))
	r.All, r.Fresh = reads[:len(reads)/2], reads[len(reads)/2:]
}
