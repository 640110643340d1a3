package window

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// edges are how the windows of a frame that are extended begin and end:
//
//	      before        window          after
//	------(------------(------------]------------]------> time
//	         x      x     x   x   x     x
//	              first           to   last
//
// Anchored windows begin with the newest sample at or before their start. Smoothed
// ones begin with the value that the line from that sample to the next one has at the
// start, and end with that of the line over their end. A sample on the very edge
// stands for itself.
type edges struct {
	// first and last are the samples at each step's edges, and the end of its window where
	// there is no value. A smoothed instant selector has the right edge alone.
	first, last []int32
	from, to    []int32 // the samples between the edges, the end excluded
	left, right []onLine
	present     []uint64 // bitmap of the steps with a value
	points      int      // number of them
}

// onLine says where on the line between two samples a value lies: since ms after the
// first of them, of which the second comes apart ms later. Where apart is 0 it is no
// line but a sample.
type onLine struct{ since, apart float64 }

// between is Prometheus's interpolate, operation by operation. A counter that was reset
// starts from 0.
func (l onLine) between(first, second float64, counter bool) float64 {
	if counter && second < first {
		first = 0
	}
	return first + float64(float64((second-first)*l.since)/l.apart)
}

// edges returns f's; a frame is only ever used for one function.
func (f *frame) edges(instant bool) *edges {
	f.extraMade.Do(func() { f.ends.make(f, instant) })
	return &f.ends
}

// make finds the edges of the windows of f, those of a smoothed instant selector if
// instant is set.
func (e *edges) make(f *frame, instant bool) {
	steps := len(f.lo)
	for _, s := range []*[]int32{&e.first, &e.last, &e.from, &e.to} {
		*s = slices.Grow((*s)[:0], steps)[:steps]
		copy(*s, f.hi)
	}
	for _, s := range []*[]onLine{&e.left, &e.right} {
		*s = slices.Grow((*s)[:0], steps)[:steps]
		clear(*s)
	}
	e.present = slices.Grow(e.present[:0], len(f.any))[:len(f.any)]
	clear(e.present)
	e.points = 0
	x := f.span.extension
	width := f.span.Width - x.Before - x.After
	f.list()
	inside, behind := int32(0), int32(0) // the first samples behind the start and not before the end
	for k, strides := f.from, [2]int{}; k < f.to; k++ {
		lo, hi := f.lo[k], f.hi[k]
		if lo == hi {
			continue
		}
		end := f.span.Scan.Times(f.span.Grid.At(k)) - x.After
		start := end - width
		inside = afterFrom(f.ts, inside, &strides[0], start)
		behind = afterFrom(f.ts, behind, &strides[1], end-1)
		ok := false
		if instant {
			ok = e.findInstant(f, k, behind, end)
		} else {
			ok = e.find(f, k, inside, behind, start, end)
		}
		if ok {
			dense.Row{Present: e.present}.Mark(k, 1)
			e.points++
		}
	}
}

// afterFrom is after, whose results it takes over.
func afterFrom(ts []int64, from int32, stride *int, t int64) int32 {
	i, n := after(ts, int(from), *stride, t)
	*stride = n
	return int32(i)
}

// find finds the edges of step k, whose window is from start to end (ms) and has at
// inside the first sample behind its start, at behind the first not before its end. It
// reports whether the step has a value.
func (e *edges) find(f *frame, k int, inside, behind int32, start, end int64) bool {
	lo, hi := f.lo[k], f.hi[k]
	smoothed := f.span.extension.Modifier == plan.Smoothed
	first, last := max(lo, inside-1), hi-1
	if smoothed {
		last = min(behind, last)
	}
	if inside == hi || smoothed && f.ts[first] > end {
		return false
	}
	e.first[k], e.last[k] = first, last
	if smoothed && f.ts[first] < start {
		e.left[k] = onLine{float64(start - f.ts[first]), float64(f.ts[first+1] - f.ts[first])}
	}
	if smoothed && f.ts[last] > end {
		e.right[k] = onLine{float64(end - f.ts[last-1]), float64(f.ts[last] - f.ts[last-1])}
	}
	e.from[k], e.to[k] = first, last+1
	if f.ts[first] <= start {
		e.from[k]++
	}
	if f.ts[last] >= end {
		e.to[k]--
	}
	return true
}

// findInstant is find for a smoothed instant selector at the time at (ms): only the
// right edge counts.
func (e *edges) findInstant(f *frame, k int, behind int32, at int64) bool {
	lo, hi := f.lo[k], f.hi[k]
	switch {
	case behind < hi && f.ts[behind] == at:
		e.last[k] = behind
	case behind > lo && behind < hi:
		e.last[k] = behind
		e.right[k] = onLine{float64(at - f.ts[behind-1]), float64(f.ts[behind] - f.ts[behind-1])}
	case behind > lo:
		e.last[k] = behind - 1
	default:
		return false
	}
	return true
}

// Interpolated is a smoothed instant selector: the value at the step on the line
// between the samples around it, or of the newest one if none comes after.
var Interpolated = defineUnnamed(&Function{
	WindowFunc: plan.WindowFunc{Name: "interpolated", KeepsName: true},
	NoPlain:    "it looks at samples beside its window",
	Extended: func(s *Evaluator, e *edges) {
		copy(s.out.Present, e.present)
		for k := s.fr.from; k < s.fr.to; k++ {
			if last := e.last[k]; last < s.fr.hi[k] {
				s.out.Values[k] = e.rightOf(&s.in, k, last, false)
			}
		}
	},
	Reads: Ends,
	NoGPU: "kernels do not look beyond the ends of windows",
})

// bounds are the windows of f from their first edges on.
func (e *edges) bounds(f *frame) *bounds { return &bounds{lo: e.first, hi: f.hi} }

// differences fills out with the difference between the edges of each step; a counter's
// has what was lost at resets, the samples that are less than the one before, added, and
// its rate is per second. It is Prometheus's extendedRate for floats, operation by operation.
func (e *edges) differences(s *Evaluator, kind difference) {
	fr, in, out, resets := s.fr, &s.in, s.out, s.resetsOf(kind)
	counter, x := kind != gaugeDelta, fr.span.extension
	seconds := secondsOf(fr.span.Width - x.Before - x.After)
	copy(out.Present, e.present)
	next := 0 // resets[next:] come behind the first sample between the edges
	for k := fr.from; k < fr.to; k++ {
		first, last := e.first[k], e.last[k]
		if first == fr.hi[k] {
			continue
		}
		left := in.At(first)
		if l := e.left[k]; l.apart != 0 {
			left = l.between(left, in.At(first+1), counter)
		}
		right := e.rightOf(in, k, last, counter)
		v := right - left
		if counter {
			for next < len(resets) && resets[next] <= e.from[k] {
				next++
			}
			v += e.lost(in, e.from[k], e.to[k], left, right, resets[next:])
		}
		if kind == counterRate {
			v /= seconds
		}
		out.Values[k] = v
	}
}

// rightOf is the value at the right edge of step k, where last is the sample.
func (e *edges) rightOf(in *column.Samples, k int, last int32, counter bool) float64 {
	if l := e.right[k]; l.apart != 0 {
		return l.between(in.At(last-1), in.At(last), counter)
	}
	return in.At(last)
}

// lost is what a counter lost at resets between two edges, whose values are left and
// right and between which lie the samples from from to to, the end excluded. resets are
// those behind the first of them.
func (e *edges) lost(in *column.Samples, from, to int32, left, right float64, resets []int32) (sum float64) {
	before := left
	if from < to {
		if in.At(from) < left {
			sum += left
		}
		for _, r := range resets {
			if r >= to {
				break
			}
			sum += in.At(r - 1)
		}
		before = in.At(to - 1)
	}
	if right < before {
		sum += before
	}
	return sum
}
