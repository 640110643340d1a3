package gpuexec

import (
	"cmp"
	"errors"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// A requestJob computes a resample request. Of one without groups the aggregates of each series come
// back batch by batch; otherwise states are merged into those of the groups, which come back at the end.
//
//	(decode) ──► count_uniqs ────► run_rows ──────────────────► rows, batch by batch
//	chunks to    columns or    └─► merge_runs ────► run_rows ─► cells, at the end
//	columns      packed tiles      states of groups
//	             to states of runs
type requestJob struct {
	*pipeline.Job
	t       *resample.Task
	custom  programs
	sources []source
	buckets launch.Buckets
	order   *order // or nil

	starts, ends layout.Section // of buckets, where a table of them is needed
	points       layout.Section // uint32 a series: runs; fetched
}

// requestProduct is the product that a task asks for.
func requestProduct(of *pipeline.Job, t *resample.Task, custom programs) pipeline.Program {
	j := &requestJob{Job: of, t: t, custom: custom, sources: sourcesOf(t, custom)}
	j.Drop = true
	g := t.Grid
	j.buckets = launch.Buckets{
		FirstStart: g.Starts[0], FirstEnd: g.Ends[0], Every: g.Every, Later: g.Later, Count: uint32(g.N()), Apart: g.Apart, Since: t.From,
	}
	if j.buckets.Every == 0 {
		n := int(j.buckets.Count)
		j.starts, j.ends = j.Take(8*n), j.Take(8*n)
		j.buckets.Starts, j.buckets.Ends = j.At(j.starts), j.At(j.ends)
	}
	for i := range j.sources {
		j.sources[i].quantiles = j.Take(8 * len(j.sources[i].ordered))
	}
	if t.Groups == len(t.GroupOf) && t.Reaggregate == nil {
		return &requestRows{j, rows{kinds: len(t.Aggregates), width: g.N(), bitmaps: len(j.sources)}}
	}
	return &groups{requestJob: j}
}

// Room implements pipeline.Program.
func (j *requestJob) Room(r *layout.Room) error {
	_, end := j.lay(0, layout.Lanes)
	r.Runs = int(end)
	for i := range j.sources {
		r.Keys = r.Keys || len(j.sources[i].ordered) > 0 && !merges(j.t)
	}
	return nil
}

// note notes what was fetched besides the values.
func (j *requestJob) note(o *offload.Outcome) {
	for _, n := range pipeline.View[uint32](j.Job, j.points) {
		o.Runs += int64(n)
	}
}

// Begin implements pipeline.Program.
func (j *requestJob) Begin(c *cuda.Context, s cuda.Stream) error {
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
	return j.Clear(c, s, j.points, 0)
}

// Compute implements pipeline.Program: the states of runs, and what is made of them alone.
func (j *requestJob) Compute(q launch.Queue, b *pipeline.Batch) error {
	all := j.runs(b)
	for i := range all {
		s, k, to, of := &j.sources[i], j.buckets, &all[i], q
		k.PerThread, k.Differences = j.perThread(b.Part), s.Differences
		if s.custom != nil {
			of = q.Of(s.custom.kernels)
		}
		if err := of.CountRuns(&b.Batch, k, &to.Runs); err != nil {
			return err
		}
		if len(s.ordered) == 0 || merges(j.t) {
			continue // or until all batches are there
		}
		if err := q.RunOrder(&b.Batch, k.Count, &to.Runs, j.At(s.quantiles), uint32(len(s.ordered))); err != nil {
			return err
		}
	}
	return nil
}

// samplesPerThread is the least number of samples that a thread goes through: finding the first one
// takes as long as some dozens.
const samplesPerThread = 256

// mostPerThread is the most buckets that a thread goes through to have as many, as it must say of each
// that it is empty.
const mostPerThread = 1024

// perThread is the number of buckets that a thread goes through: as many as leave enough threads
// for the device, and have enough samples; whole lines of states.
func (j *requestJob) perThread(b *layout.Part) uint32 {
	places, buckets := uint32(len(b.Sizes)*layout.Lanes), j.buckets.Count
	parts := max(1, j.ThreadGoal/places)
	ofSeries := max(1, uint64(b.Total.Samples)/uint64(places))
	enough := min(mostPerThread, (samplesPerThread*uint64(buckets)+ofSeries-1)/ofSeries)
	each := max((buckets+parts-1)/parts, uint32(enough), (buckets+launch.MaxGridY-1)/launch.MaxGridY)
	return uint32(layout.Aligned(int(each), abi.StateLine))
}

// source is one of the plan's sources, and what is made of its runs.
type source struct {
	resample.Source
	fields    int            // that are stored of a state
	custom    *program       // that makes the states, or nil
	ordered   []int          // aggregates of the request that are of the order of values, quantiles first
	quantiles layout.Section // float64, one for each of them
}

// sourcesOf are the sources of a task, with the programs of custom aggregates. Of states that do
// not merge, these make the results at once.
func sourcesOf(t *resample.Task, custom programs) (all []source) {
	for _, of := range t.Sources {
		s := source{Source: of, fields: runFields(of.Contents.Parts), custom: custom[t.Aggregates[of.Outputs[0]].Definition]}
		if s.custom != nil && merges(t) {
			s.fields = len(s.custom.Start)
		}
		for _, a := range of.Outputs {
			if ordered(t.Aggregates[a]) {
				s.ordered = append(s.ordered, a)
			}
		}
		slices.SortStableFunc(s.ordered, func(a, b int) int {
			return cmp.Compare(quantileOf(t.Aggregates[b]), quantileOf(t.Aggregates[a]))
		})
		all = append(all, s)
	}
	return all
}

// runFields is the number of 8-byte fields that kernels store of the state of a run with those
// parts, besides the number of its samples (a uint32). Kernels know parts by the bits that they
// have in package aggregate, see kernels/abi/resample.h.
func runFields(parts aggregate.Parts) (n int) {
	for part, fields := range map[aggregate.Parts]int{
		aggregate.Sum: 2, aggregate.Extremes: 2, aggregate.Ends: 4, aggregate.Squares: 1, aggregate.Weighted: 3,
	} {
		if parts&part != 0 {
			n += fields
		}
	}
	return n
}

// kernelParts are parts as kernels know them, of which extremes are one.
func kernelParts(parts aggregate.Parts) uint32 {
	return uint32(parts &^ (aggregate.Least | aggregate.Most | aggregate.Oldest | aggregate.Newest | aggregate.Merging))
}

// made is what is made of a batch's runs of a source.
type made struct {
	launch.Runs
	again cuda.Pointer // float64 a run: an aggregate that is aggregated again
}

// runs are where what is made of a batch's runs is, by source.
func (j *requestJob) runs(b *pipeline.Batch) []made {
	all, _ := j.lay(b.At(b.Output.Runs), int(b.Tiles)*layout.Lanes)
	for i := range all {
		m := &all[i]
		m.Points = j.At(j.points) + cuda.Pointer(4*b.Base)
		if m.InRows != 0 {
			m.Keys = b.At(b.Output.Keys)
		}
		if o := j.order; o != nil && o.again == 0 && o.runs[i].Keys != 0 {
			m.Keys, m.InRows = o.at(j, i, b)
		}
	}
	return all
}

// lay divides the memory from an address on for what is made of the runs of each source, of so many series.
func (j *requestJob) lay(at cuda.Pointer, series int) (all []made, end cuda.Pointer) {
	buckets := int(j.buckets.Count)
	cells := series * buckets
	take := func(bytes int) cuda.Pointer {
		was := at
		at += cuda.Pointer(bytes)
		return was
	}
	for i := range j.sources {
		s := &j.sources[i]
		m := made{Runs: launch.Runs{Cells: uint64(cells), Parts: kernelParts(s.Contents.Parts), Stored: uint32(s.fields), Custom: s.custom != nil}}
		m.Fields, m.N = take(launch.FieldBytes(series, buckets, s.fields)), take(4*cells)
		if j.t.Reaggregate != nil {
			m.again = take(8 * cells)
		}
		if len(s.ordered) > 0 && !merges(j.t) {
			m.InRows, m.Found = take(8*cells), take(8*cells*len(s.ordered))
		}
		if s.custom != nil && !merges(j.t) {
			m.Found = take(8 * cells)
		}
		all = append(all, m)
	}
	return all, at
}

// madeOf is aggregate a of the request as kernels know it, of the runs of source s, and where it is if
// it is abi.Found.
func (j *requestJob) madeOf(s, a int, m *made) (number uint32, found cuda.Pointer) {
	if j.sources[s].custom != nil {
		return abi.Found, m.Found
	}
	if i := slices.Index(j.sources[s].ordered, a); i >= 0 {
		return abi.Found, m.Found + cuda.Pointer(8*m.Cells*uint64(i))
	}
	return j.t.Aggregates[a].GPU.Number(), 0
}
