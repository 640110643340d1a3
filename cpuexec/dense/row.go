// Package dense has rows of values over the steps of a grid as they are while they are made:
// a slot for each step, and a bitmap of the steps that have a value. Finished rows are sparse
// (plan.Row); Row.Put and Row.Compact turn one into the other. It knows nothing of where values
// come from. Values at steps without one mean nothing.
//
// Start with Row.
package dense

import (
	"math/bits"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/plan"
)

// Row is where the values of one series go: one slot a step, and a bitmap of
// the steps that have a value.
type Row struct {
	Values  []float64
	Present []uint64
}

// New is a row of a number of steps, without a value.
func New(steps int) Row {
	return Row{Values: make([]float64, steps), Present: make([]uint64, (steps+63)/64)}
}

// Set gives step k a value.
func (r Row) Set(k int, v float64) {
	r.Values[k] = v
	r.Present[k>>6] |= 1 << (k & 63)
}

// Absent is the bits of a value that is not there, in lists of values that have one for each
// step: Prometheus's stale marker, which no function returns.
const Absent = value.StaleNaN

// Cursor writes a row whose values come in step order. It gathers a word of the
// bitmap before it stores it.
type Cursor struct {
	Row
	word uint64
	at   int // index of word
}

// Set gives step k a value, which is not before the last one.
func (c *Cursor) Set(k int, v float64) {
	if w := k >> 6; w != c.at {
		c.Flush()
		c.at = w
	}
	c.Values[k] = v
	c.word |= 1 << (k & 63)
}

// Flush ends the row.
func (c *Cursor) Flush() {
	c.Present[c.at] |= c.word
	c.word = 0
}

// Mark notes that n steps from first on have values.
func (r Row) Mark(first, n int) {
	EachWord(first, n, func(w int, mask uint64) { r.Present[w] |= mask })
}

// Has reports whether any of n steps from first on has a value.
func (r Row) Has(first, n int) (any bool) {
	EachWord(first, n, func(w int, mask uint64) { any = any || r.Present[w]&mask != 0 })
	return any
}

// Put writes the values of a sparse row, beside the values that are there.
func (r Row) Put(in *plan.Row) {
	at := 0
	for _, run := range in.Runs {
		at += copy(r.Values[run.First:run.First+run.Len], in.Values[at:])
		r.Mark(int(run.First), int(run.Len))
	}
}

// EachWord calls f with each word of the bitmap that holds some of n steps from
// first on, and the bits of those.
func EachWord(first, n int, f func(w int, mask uint64)) {
	for end := first + n; first < end; {
		k := min(64-first&63, end-first)
		f(first>>6, ^uint64(0)>>(64-k)<<(first&63))
		first += k
	}
}

// Compact returns the row, which has n values, as a sparse one.
func (r Row) Compact(n int, l labels.Labels) plan.Row {
	out := plan.Row{Labels: l, Values: make([]float64, 0, n), Runs: Runs(r.Present, len(r.Values))}
	for _, run := range out.Runs {
		out.Values = append(out.Values, r.Values[run.First:run.First+run.Len]...)
	}
	return out
}

// Count returns the number of set bits of a bitmap.
func Count(bitmap []uint64) (n int) {
	for _, w := range bitmap {
		n += bits.OnesCount64(w)
	}
	return n
}

// Counts are what the sample limit and the query statistics need of a series.
type Counts struct {
	Points     int // steps with a value
	Mapped     int // of them after maps
	MaxWindow  int // most samples in one window
	LastWindow int // samples in the window of the last step
}

// Runs returns the stretches of set bits among the first n of a bitmap.
func Runs(present []uint64, n int) []plan.Run {
	var out []plan.Run
	for k := 0; k < n; {
		w := present[k>>6] >> (k & 63)
		if w == 0 {
			k = (k>>6 + 1) << 6
			continue
		}
		k += bits.TrailingZeros64(w)
		first := k
		k = End(present, k, n)
		out = append(out, plan.Run{First: int32(first), Len: int32(k - first)})
	}
	return out
}

// End returns the end of the set bits from the k-th on, among the first n of a bitmap: k if it is not set.
func End(present []uint64, k, n int) int {
	for k < n {
		w := ^(present[k>>6] >> (k & 63))
		set := min(bits.TrailingZeros64(w), 64-k&63)
		k += set
		if k&63 != 0 || set == 0 {
			break
		}
	}
	return min(k, n)
}

// RunCursor walks the runs of a row.
type RunCursor struct {
	Row  *plan.Row
	run  int   // the current run
	base int32 // index of its first value
}

// Next returns the row's values at length steps from first on, all of which
// have one, or nil if none of them has. Calls come in step order.
func (c *RunCursor) Next(first, length int32) []float64 {
	for ; c.run < len(c.Row.Runs); c.run++ {
		run := c.Row.Runs[c.run]
		if first < run.First {
			return nil
		}
		if at := c.base + first - run.First; first < run.First+run.Len {
			return c.Row.Values[at : at+length]
		}
		c.base += run.Len
	}
	return nil
}

// Each calls f with the row's values at steps from first to before end, a run at a time, of which f
// gets the first step. Calls come in step order.
func (c *RunCursor) Each(first, end int32, f func(step int32, values []float64)) {
	for ; c.run < len(c.Row.Runs); c.run++ {
		run := c.Row.Runs[c.run]
		from, to := max(first, run.First), min(end, run.First+run.Len)
		if from < to {
			f(from, c.Row.Values[c.base+from-run.First:c.base+to-run.First])
		}
		if run.First+run.Len > end {
			return
		}
		c.base += run.Len
	}
}

// Stretches walks several rows together.
type Stretches struct {
	cuts    []int32 // steps at which a run of one of the rows begins or ends
	cursors []RunCursor
	values  [][]float64
}

// Walk calls f, until that fails, for each stretch of steps during which the same rows have values,
// and some row has, with the values of each; nil for a row that has none. f may change the list.
func (s *Stretches) Walk(rows []*plan.Row, f func(first, length int32, values [][]float64) error) error {
	s.cuts, s.cursors, s.values = s.cuts[:0], s.cursors[:0], slices.Grow(s.values[:0], len(rows))[:len(rows)]
	for _, row := range rows {
		s.cursors = append(s.cursors, RunCursor{Row: row})
		for _, run := range row.Runs {
			s.cuts = append(s.cuts, run.First, run.First+run.Len)
		}
	}
	slices.Sort(s.cuts)
	s.cuts = slices.Compact(s.cuts)
	for k := 1; k < len(s.cuts); k++ {
		first, length, any := s.cuts[k-1], s.cuts[k]-s.cuts[k-1], false
		for i := range s.cursors {
			s.values[i] = s.cursors[i].Next(first, length)
			any = any || s.values[i] != nil
		}
		if any {
			if err := f(first, length, s.values); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fill sets all of out to v: by copies of what is set already, which move many bytes at once.
func Fill[T int32 | float64](out []T, v T) {
	if len(out) == 0 {
		return
	}
	out[0] = v
	for set := 1; set < len(out); set *= 2 {
		copy(out[set:], out[:set])
	}
}
