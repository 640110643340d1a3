package resampling

import (
	"cmp"
	"slices"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/resample"
)

// source is one of the plan's sources, and what is made of its runs.
type source struct {
	resample.Source
	fields    int            // that are stored of a state
	custom    *program       // that makes the states, or nil
	ordered   []int          // aggregates of the request that are of the order of values, quantiles first
	quantiles layout.Section // float64, one for each of them
}

// bytes is the device memory that a run takes for as long as its batch.
func (s *source) bytes(t *resample.Task) int {
	n := 4 + 8*s.fields
	if t.Reaggregate != nil {
		n += 8
	}
	if len(s.ordered) > 0 && !merges(t) {
		n += 4 + 8*len(s.ordered)
	}
	if s.custom != nil && !merges(t) {
		n += 8
	}
	return n
}

// sourcesOf are the sources of a task, with the programs of those that are custom. Of states that do
// not merge, these make the results at once.
func sourcesOf(t *resample.Task, custom programs) (all []source) {
	for _, of := range t.Sources() {
		s := source{Source: of, fields: abi.RunFields(uint32(of.Parts)), custom: custom[t.Aggregates[of.Outputs[0]].Definition]}
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

// fusedLongest is the longest bucket of a fused kernel, in chunks. A test changes it.
var fusedLongest = 1.0

// fuses reports whether runs are counted while chunks are decoded, without storing samples in
// between, but for keys of their order: if nothing reads these again. Each run is counted by the
// thread that has the chunk in which its bucket begins, so that buckets longer than chunks would
// leave most threads without one. Fused kernels read XOR chunks alone: where there are XOR2 chunks,
// decode_mixed makes columns of all. It does not change a bit of the answer.
func fuses(t *resample.Task, sources []source) bool {
	if len(sources) != 1 || sources[0].Differences || !t.Grid.Apart() || t.Selection.Has(chunkenc.EncXOR2) {
		return false
	}
	return t.Grid.Longest() <= int64(fusedLongest*float64(layout.ChunkSpan(t.Selection)))
}

// made is what is made of a batch's runs of a source.
type made struct {
	launch.Runs
	again cuda.Pointer // float64 a run: an aggregate that is aggregated again
}

// runs are where what is made of a batch's runs is, by source, and where that memory ends.
func (j *job) runs(b *pipeline.Batch) (all []made, end cuda.Pointer) {
	at := b.At(b.Output.Runs)
	cells := uint64(b.Tiles) * uint64(j.buckets.Count) * layout.Lanes
	take := func(each int) cuda.Pointer {
		was := at
		at += cuda.Pointer(cells) * cuda.Pointer(each)
		return was
	}
	for i := range j.sources {
		s := &j.sources[i]
		m := made{Runs: launch.Runs{
			Cells: cells, Parts: uint32(s.Parts), Custom: s.custom != nil, Points: j.At(j.points) + cuda.Pointer(4*b.Base),
		}}
		m.Fields, m.N = take(8*s.fields), take(4)
		if j.t.Reaggregate != nil {
			m.again = take(8)
		}
		if len(s.ordered) > 0 && !merges(j.t) {
			m.Begins, m.Found, m.Keys = take(4), take(8*len(s.ordered)), b.At(b.Output.Keys)
		}
		if s.custom != nil && !merges(j.t) {
			m.Found = take(8)
		}
		if j.order != nil {
			j.order.of(j, i, b, &m)
		}
		all = append(all, m)
	}
	return all, at
}

// madeOf is aggregate a of the request as kernels know it, of the runs of source s, and where it is if
// it is abi.Found.
func (j *job) madeOf(s, a int, m *made) (abi.Aggregate, cuda.Pointer) {
	if j.sources[s].custom != nil {
		return abi.Found, m.Found
	}
	if i := slices.Index(j.sources[s].ordered, a); i >= 0 {
		return abi.Found, m.Found + cuda.Pointer(8*m.Cells*uint64(i))
	}
	return aggregates[j.t.Aggregates[a].Name], 0
}
