package column

import (
	"math"
	"slices"
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/selection"
)

// column is the decoded samples of some consecutive chunks of a series.
type column struct {
	chunks []selection.Origin
	*SharedTimes
	Packed                                      // the values, where they can be
	vs         []float64                        // the values where they can't
	starts     decode.Starts                    // start timestamps, if they were wanted
	withStarts bool                             // they were
	marked     bool                             // the chunks have stale markers
	withStale  bool                             // which are among the samples
	resets     found                            // samples that are less than the one before
	stale      found                            // stale markers
	magnitudes atomic.Pointer[exact.Magnitudes] // of vs, found when first asked for
}

// SharedTimes are the times of a column, shared by all columns that have the same.
type SharedTimes struct {
	n    int
	runs Runs // what they are, or
	ts   []int64
	hash uint64
	refs int         // accounts, guarded by the set's mutex
	lent atomic.Bool // several columns have had them
}

// values returns the values of samples lo to hi, the end excluded: the retained
// ones, or a copy in scratch.
func (c *column) values(lo, hi int, scratch *[]float64) []float64 {
	if c.Units == nil {
		return c.vs[lo:hi]
	}
	*scratch = c.Packed.append((*scratch)[:0], lo, hi)
	return *scratch
}

// size is the memory of t in bytes.
func (t *SharedTimes) size() int64 {
	return 8*int64(cap(t.ts)) + 2*int64(cap(t.runs.Late)) + int64(len(t.runs.Even))*int64(unsafe.Sizeof(EvenRun{}))
}

// notAfter is the number of samples that are not later than at (ms).
func (t *SharedTimes) notAfter(at int64) int {
	if t.ts != nil {
		return sort.Search(len(t.ts), func(k int) bool { return t.ts[k] > at })
	}
	var n [1]int32
	t.runs.NotAfter(at, 1, n[:])
	return int(n[0])
}

// appendTimes appends the times from lo to hi, the end excluded, to out.
func (t *SharedTimes) appendTimes(out []int64, lo, hi int) []int64 {
	if t.ts != nil {
		return append(out, t.ts[lo:hi]...)
	}
	return t.runs.append(out, lo, hi)
}

// equal reports whether t are ts.
func (t *SharedTimes) equal(ts []int64) bool {
	if t.ts != nil {
		return slices.Equal(t.ts, ts)
	}
	if t.n != len(ts) {
		return false
	}
	off, late := int64(0), t.runs.Late
	for k := range t.runs.Even {
		e := &t.runs.Even[k]
		due, part := e.First, ts[e.From:e.To]
		if late == nil {
			for _, at := range part {
				off |= at - due
				due += e.Every
			}
			continue
		}
		for i, ms := range late[e.From:e.To][:len(part)] {
			off |= part[i] - due - int64(ms)
			due += e.Every
		}
	}
	return off == 0
}

// found are samples of a column that are worth knowing, as indices: looked for when
// first asked for, and known from then on.
type found struct{ list atomic.Pointer[[]int32] }

// between appends those from lo to hi, the end excluded, counted from lo, to out.
// find finds all.
func (f *found) between(lo, hi int, out []int32, find func() []int32) []int32 {
	all := f.list.Load()
	if all == nil {
		list := slices.Clip(find())
		all = &list
		f.list.Store(all)
	}
	from, _ := slices.BinarySearch(*all, int32(lo))
	to, _ := slices.BinarySearch(*all, int32(hi))
	n := len(out)
	out = append(out, (*all)[from:to]...)
	for k := range out[n:] {
		out[n+k] -= int32(lo)
	}
	return out
}

// match returns how many of the chunks, from the first on, c holds the samples
// of.
func (c *column) match(sel *selection.Selection, cs []selection.Chunk) int {
	return run(c.chunks, slices.Index(c.chunks, sel.Origin(cs[0])), sel, cs)
}

// within returns the samples from mint to maxt (ms, both included) as q wants them. Their
// values may be in scratch.
func (c *column) within(q *Request, mint, maxt int64, scratch *[]float64) Samples {
	lo, hi := 0, c.notAfter(maxt)
	if mint > math.MinInt64 {
		lo = min(c.notAfter(mint-1), hi)
	}
	in := Samples{Times: Times{Known: hi - lo, Place: Place{c.SharedTimes, lo}}, hasStale: c.withStale, column: c}
	if c.Units != nil && lo < hi && q.TakePacked {
		in.Packed = Packed{c.Units[lo:hi], c.Base, c.Unit}
	} else {
		in.Values = c.values(lo, hi, scratch)
	}
	return in
}
