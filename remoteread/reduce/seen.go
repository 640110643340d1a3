package reduce

import (
	"math"
	"slices"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// marker notes which samples of a series some evaluation sees.
type marker struct {
	asked
	window.Sees
	seen  []bool // of each sample, where a window sees several
	whole int    // up to which index a window has seen all of its samples
}

// mark appends to kept the indices of those samples of ts and vs that are seen by an evaluation
// of the grid. None of them is dropped by the reader: of ranges, there are no stale markers.
// Only functions by value look at vs.
func (m *marker) mark(kept []int, ts []int64, vs []float64) []int {
	if len(ts) == 0 {
		return kept
	}
	m.seen, m.whole = m.seen[:0], 0
	if m.Sees >= window.LastTwo {
		m.seen = slices.Grow(m.seen, len(ts))[:len(ts)]
		clear(m.seen)
	}
	lo, hi, done := 0, 0, 0
	for at := m.grid.after(ts[0]); at <= m.last; {
		lo, hi = beyond(ts, lo, at-m.width), beyond(ts, hi, at)
		next := m.last + 1
		if hi < len(ts) {
			next = m.grid.after(ts[hi]) // until then, windows get no further samples
		}
		if lo < hi {
			switch m.Sees {
			case window.Latest:
				kept = append(kept, hi-1)
			case window.Earliest:
				kept = append(kept, lo)
				next = m.grid.after(ts[lo] + m.width) // until then, they begin with the same
			case window.Everything:
				for done = max(done, lo); done < hi; done++ {
					kept = append(kept, done)
				}
			case window.Largest, window.Smallest:
				kept = append(kept, m.best(vs, lo, hi))
			case window.FirstLast, window.Counter:
				m.seeEnds(ts, lo, hi, at)
				next = at + m.step
			case window.LastTwo:
				m.seen[max(lo, hi-2)], m.seen[hi-1] = true, true
			default:
				m.seen[hi-1] = true
			}
			if m.Sees >= window.Counter {
				for done = max(done, lo+1); done < hi; done++ {
					v, next := vs[done-1], vs[done]
					if m.Sees == window.Changing && v != next || (m.Sees == window.Counter || m.Sees == window.Falling) && !(v <= next) {
						m.seen[done-1], m.seen[done] = true, true
					}
				}
			}
		}
		at = next
	}
	for i, seen := range m.seen {
		if seen {
			kept = append(kept, i)
		}
	}
	return kept
}

// seeEnds notes what the window at a time sees, which has the samples from lo to hi, the end
// excluded. A rate is extrapolated from the first and the last sample to the ends of the window if
// these are nearer than 1.1 times the mean distance of samples. Without those in between the mean
// distance is larger, so the ends remain near. Where one is not near the mean distance is seen,
// and with it how many samples there are.
func (m *marker) seeEnds(ts []int64, lo, hi int, at int64) {
	const near = 1.05 // and not 1.1, for rounding
	start := at - m.width
	if m.closed {
		start++
	}
	mean := float64(ts[hi-1]-ts[lo]) / float64(hi-1-lo)
	if far := float64(max(ts[lo]-start, at-ts[hi-1])); far <= near*mean {
		m.seen[lo], m.seen[hi-1] = true, true
		return
	}
	for i := max(lo, m.whole); i < hi; i++ {
		m.seen[i] = true
	}
	m.whole = hi
}

// best returns the index of the sample that is seen of those from lo to hi, the end excluded: the first
// one that no later one beats.
func (m *marker) best(vs []float64, lo, hi int) int {
	best := lo
	for i := lo + 1; i < hi; i++ {
		v, w := vs[i], vs[best]
		if m.Sees == window.Largest && v > w || m.Sees == window.Smallest && v < w || math.IsNaN(w) {
			best = i
		}
	}
	return best
}

// beyond returns the index of the first of ts, from one on, that is after t.
func beyond(ts []int64, from int, t int64) int {
	step := 1
	for from+step < len(ts) && ts[from+step] <= t {
		step *= 2
	}
	rest := ts[from:min(len(ts), from+step)]
	return from + sort.Search(len(rest), func(i int) bool { return rest[i] > t })
}

// choose returns what is seen of the samples of q, by a reader that has no others if it is alone,
// and whether each window's sample is sent as one at the window's end. That takes fewer bytes, and
// is the only way to send what is added up.
func (a asked) choose(q serve.Query, alone bool) (f window.Sees, onGrid bool) {
	if q.Hints.Range == 0 {
		return window.Latest, false
	}
	alone = alone && !cut(q)
	onGrid = alone && (a.step >= a.width || a.steps() == 1)
	of := window.Named(q.Hints.Func)
	if of == nil {
		of = vector.Called(q.Hints.Func).Window
	}
	f = window.Everything
	if of != nil {
		f = window.Of(of).Sees
	}
	if f.Alone() && !alone {
		f = window.Everything
	}
	if f.Added() && !(onGrid && a.sums) || f.Extreme() && a.width > a.step && a.steps() > 1 {
		f = window.Everything
	}
	return f, onGrid && f != window.Everything && f < window.LastTwo
}

// cut reports whether the reader drops what is sent of times for which it has samples itself.
func cut(q serve.Query) bool { return q.Start > q.Hints.Start || q.End < q.Hints.End }
