package column

import (
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Samples are what a window function reads of a series.
type Samples struct {
	Times    Times
	Values   []float64
	hasStale bool    // there are stale markers among them
	column   *column // of which the shared times are a part, nil if decoded just now
	// Where windows are looked at from their ends alone, the values of a packed column
	// stay so: those of the shared times are here, and in Values is what comes then.
	Packed
	Starts decode.Starts // start timestamps, if they are wanted
}

// Times are the times of a series' samples in ms, in two parts.
type Times struct {
	Known int     // how many are of a list of times that series share and that never changes
	Own   []int64 // the times that follow
	Place
}

// Place is where shared times are: from index At of a list on, which is nil if there are none.
type Place struct {
	List *SharedTimes
	At   int
}

// Len is the number of samples.
func (t Times) Len() int { return t.Known + len(t.Own) }

// NewSamples are samples that are not in chunks.
func NewSamples(ts []int64, vs []float64) Samples {
	return Samples{Times: Times{Own: ts}, Values: vs}
}

// Runs returns the runs that the shared times and then tail are made of, if the list of the
// shared ones has any. They may be in scratch.
func (t Times) Runs(tail []int64, scratch *Runs) Runs {
	if t.List == nil || len(t.List.runs.Even) == 0 || len(tail) > 0 && tail[len(tail)-1] > far {
		return Runs{}
	}
	all, end := t.List.runs, t.At+t.Known
	r := Runs{Even: scratch.Even[:0]}
	for _, e := range all.Even {
		lo, hi := max(e.From, int32(t.At)), min(e.To, int32(end))
		if lo < hi {
			r.Even = append(r.Even, EvenRun{lo - int32(t.At), hi - int32(t.At), e.at(lo), e.Every, e.Late})
		}
	}
	switch {
	case all.Late == nil:
	case len(tail) == 0:
		r.Late = all.Late[t.At:end]
	default:
		scratch.Late = append(scratch.Late[:0], all.Late[t.At:end]...)
		r.Late = scratch.Late
	}
	r = r.Add(tail)
	scratch.Even = r.Even
	if len(tail) > 0 && r.Late != nil {
		scratch.Late = r.Late
	}
	return r
}

// Several reports whether other series have the same times, as far as is known.
func (t Times) Several() bool { return t.List == nil || t.List.lent.Load() }

// Join returns the shared times and then tail in one list, which may be in scratch.
func (t Times) Join(tail []int64, scratch *[]int64) []int64 {
	switch {
	case t.Known == 0:
		return tail
	case t.List.ts != nil && len(tail) == 0:
		return t.List.ts[t.At : t.At+t.Known : t.At+t.Known]
	}
	*scratch = append(t.List.appendTimes((*scratch)[:0], t.At, t.At+t.Known), tail...)
	return *scratch
}

// append puts the values of tail behind a copy of those of in, or behind the packed ones. A copy
// of packed values is in scratch already.
func (in *Samples) append(tail Samples, scratch *[]float64) {
	in.Times.Own, in.hasStale = tail.Times.Own, in.hasStale || tail.hasStale
	if in.Units != nil {
		in.Values = tail.Values
		return
	}
	if in.column.Units == nil {
		in.Values = append((*scratch)[:0], in.Values...)
	}
	*scratch = append(in.Values, tail.Values...)
	in.Values = *scratch
}

// Resets appends the samples that are less than the one before, as indices, to out: all that have it
// in one of the windows lo[k] to hi[k], the end excluded, which never fall, and maybe others.
func (in *Samples) Resets(lo, hi, out []int32) []int32 {
	known := in.Times.Known
	if c := in.column; c != nil {
		out = c.resets.between(in.Times.At, in.Times.At+known, out, func() []int32 {
			if c.Units != nil { // which are in the order of the values
				return findResets(c.Units, 0, nil)
			}
			return findResets(c.vs, 0, nil)
		})
	}
	for k, _ := slices.BinarySearch(hi, int32(known)+1); k < len(hi); {
		first, end := int(lo[k]), hi[k]
		for k++; k < len(hi) && lo[k] <= end; k++ {
			end = hi[k]
		}
		out = findResets(in.Values[:end], max(first+1, known), out)
	}
	return out
}

// findResets appends the indices, at least from, of the samples that are less
// than the one before to resets.
func findResets[T uint32 | float64](vs []T, from int, resets []int32) []int32 {
	for i := max(from, 1); i < len(vs); i++ {
		if vs[i] < vs[i-1] {
			resets = append(resets, int32(i))
		}
	}
	return resets
}

// Stale appends the samples that are stale markers, as indices, to out: all that are the last of the
// samples up to one of the indices hi, which are not included and never fall, and maybe others.
func (in *Samples) Stale(hi, out []int32) []int32 {
	if !in.hasStale {
		return out
	}
	known := in.Times.Known
	if in.column != nil {
		out = in.column.stale.between(in.Times.At, in.Times.At+known, out, func() []int32 { return findStale(in.column.vs) })
	}
	last := int32(known) - 1
	for _, end := range hi {
		if end-1 > last && value.IsStaleNaN(in.Values[end-1]) {
			out = append(out, end-1)
		}
		last = max(last, end-1)
	}
	return out
}

// findStale returns the indices of the stale markers.
func findStale(vs []float64) (stale []int32) {
	for i, v := range vs {
		if value.IsStaleNaN(v) {
			stale = append(stale, int32(i))
		}
	}
	return stale
}

// UnpackFrom puts the packed values from sample from on, and those behind them, into Values,
// at their places: what is before them means nothing. The memory is scratch.
func (in *Samples) UnpackFrom(from int, scratch *[]float64) {
	known, tail := len(in.Units), in.Values
	in.Values = slices.Grow((*scratch)[:0], known+len(tail))[:known+len(tail)]
	*scratch = in.Values
	widen(in.Values[from:known], in.Units[from:], in.Base, in.Unit)
	copy(in.Values[known:], tail)
}

// Stays reports whether Values stay what they are when other samples are read.
func (in *Samples) Stays() bool {
	return in.column != nil && in.column.Units == nil && len(in.Times.Own) == 0
}

// Unpack puts all values into Values. The memory is scratch.
func (in *Samples) Unpack(scratch *[]float64) {
	if in.Units != nil {
		*scratch = append(in.Packed.append((*scratch)[:0], 0, len(in.Units)), in.Values...)
		in.Values, in.Packed = *scratch, Packed{}
	}
}

// Magnitudes enclose those of Values. A column that is not packed knows those of all that it has.
func (in *Samples) Magnitudes() exact.Magnitudes {
	c := in.column
	if c == nil || c.Units != nil || len(in.Times.Own) > 0 {
		return exact.MagnitudesOf(in.Values)
	}
	if c.magnitudes.Load() == nil {
		of := exact.MagnitudesOf(c.vs)
		c.magnitudes.Store(&of)
	}
	return *c.magnitudes.Load()
}

// At is the value of sample i, packed or not.
func (in *Samples) At(i int32) float64 {
	if int(i) < len(in.Units) {
		return in.Value(i)
	}
	return in.Values[i]
}

const (
	// A step that reads a few samples out of at least this number leaves cache lines out.
	prefetchedPerStep = 16
	// mostPrefetched is how many samples are brought nearer at most: with their times 256 KiB where
	// both are packed.
	mostPrefetched = 42_000
)

// Prefetch has memory bring the column that the samples are of nearer to the core, for functions
// that read a few samples at each of the steps: these wait for one line of memory after the
// other otherwise, and have work to do on the times before they come to the values.
func (in *Samples) Prefetch(steps int) {
	n, c := in.Times.Known, in.column
	if c == nil || n == 0 || n > prefetchedPerStep*steps {
		return
	}
	n = min(n, mostPrefetched)
	if late := c.runs.Late; late != nil && !in.Times.Several() { // which are looked at once
		decode.Prefetch((*byte)(unsafe.Pointer(&late[in.Times.At])), 2*n)
	}
	switch {
	case in.Units != nil:
		decode.Prefetch((*byte)(unsafe.Pointer(&in.Units[0])), 4*n)
	case c.Units == nil:
		decode.Prefetch((*byte)(unsafe.Pointer(&in.Values[0])), 8*n)
	}
}
