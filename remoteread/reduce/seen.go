package reduce

import (
	"math"
	"slices"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// function is what an evaluation sees of the samples in its window.
type function int

const (
	everything function = iota
	latest              // the last one
	earliest            // the first one
	largest             // the first of the largest ones
	smallest            // the first of the smallest ones
	total               // the sum of all
	mean                // their mean
	lastTwo             // the last two
	ends                // the first and the last one, and, seldom, how many there are
	counter             // the same, and where values fall
	falling             // where values fall
	changing            // where values change
)

// byValue reports whether values decide what is seen.
func (f function) byValue() bool { return f.extreme() || f.added() || f >= counter }

// added reports whether what is seen is made of all samples.
func (f function) added() bool { return f == total || f == mean }

// extreme reports whether one value is seen, which others decide about.
func (f function) extreme() bool { return f == largest || f == smallest }

// perWindow is how many samples of a window are seen, mostly.
func (f function) perWindow() int64 {
	if f >= lastTwo {
		return 2
	}
	return 1
}

// beats reports whether f sees a later sample of value v instead of one of value w.
func (f function) beats(v, w float64) bool {
	return f == largest && v > w || f == smallest && v < w || math.IsNaN(w)
}

// parts reports whether f sees a difference between a sample of value v and the next, of w.
func (f function) parts(v, w float64) bool {
	return f == changing && v != w || (f == counter || f == falling) && !(v <= w)
}

// overTime are the functions of a range that see few samples of each window, whatever samples a
// reader has besides.
var overTime = map[string]function{
	"last_over_time":    latest,
	"present_over_time": latest,
	"absent_over_time":  latest,
	"first_over_time":   earliest,
	"max_over_time":     largest,
	"min_over_time":     smallest,
	"irate":             lastTwo,
	"idelta":            lastTwo,
}

// aloneOverTime are those that do so where a reader has no other samples of the series.
var aloneOverTime = map[string]function{
	"delta":         ends,
	"rate":          counter,
	"increase":      counter,
	"resets":        falling,
	"changes":       changing,
	"sum_over_time": total,
	"avg_over_time": mean,
}

// marker notes which samples of a series some evaluation sees.
type marker struct {
	asked
	function
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
	if m.function >= lastTwo {
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
			switch m.function {
			case latest:
				kept = append(kept, hi-1)
			case earliest:
				kept = append(kept, lo)
				next = m.grid.after(ts[lo] + m.width) // until then, they begin with the same
			case everything:
				for done = max(done, lo); done < hi; done++ {
					kept = append(kept, done)
				}
			case largest, smallest:
				kept = append(kept, m.best(vs, lo, hi))
			case ends, counter:
				m.seeEnds(ts, lo, hi, at)
				next = at + m.step
			case lastTwo:
				m.seen[max(lo, hi-2)], m.seen[hi-1] = true, true
			default:
				m.seen[hi-1] = true
			}
			if m.function >= counter {
				for done = max(done, lo+1); done < hi; done++ {
					if m.parts(vs[done-1], vs[done]) {
						m.seen[done-1], m.seen[done] = true, true
					}
				}
			}
		}
		at = next
	}
	return m.collect(kept)
}

// collect appends to kept what several windows see.
func (m *marker) collect(kept []int) []int {
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

// best returns the index of the sample that is seen of those from lo to hi, the end excluded.
func (m *marker) best(vs []float64, lo, hi int) int {
	best := lo
	for i := lo + 1; i < hi; i++ {
		if m.beats(vs[i], vs[best]) {
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
func (a asked) choose(q serve.Query, alone bool) (f function, onGrid bool) {
	if q.Hints.Range == 0 {
		return latest, false
	}
	alone = alone && !cut(q)
	onGrid = alone && (a.step >= a.width || a.steps() == 1)
	if f = overTime[q.Hints.Func]; f == everything && alone {
		f = aloneOverTime[q.Hints.Func]
	}
	if f.added() && !(onGrid && a.sums) || f.extreme() && a.width > a.step && a.steps() > 1 {
		f = everything
	}
	return f, onGrid && f != everything && f < lastTwo
}

// cut reports whether the reader drops what is sent of times for which it has samples itself.
func cut(q serve.Query) bool { return q.Start > q.Hints.Start || q.End < q.Hints.End }

// add appends to w's times and values those of windows that are made of all of their samples.
func (w *worker) add(ts []int64, vs []float64) {
	for lo, hi := 0, 0; hi < len(ts); {
		at := w.grid.after(ts[hi])
		if at > w.last {
			return
		}
		lo, hi = beyond(ts, hi, at-w.width), beyond(ts, hi, at)
		if lo == hi {
			continue
		}
		v := 0.0
		if w.function == total {
			v = exact.Sum(vs[lo:hi])
		} else {
			v = exact.Mean(vs[lo:hi])
		}
		w.times, w.values = append(w.times, at), append(w.values, v)
	}
}
