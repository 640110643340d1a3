package frame

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// Edges are how the windows of a frame that are extended begin and end:
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
type Edges struct {
	// First and Last are the samples at each step's edges, and the end of its window where
	// there is no value. A smoothed instant selector has the right edge alone.
	First, Last []int32
	From, To    []int32 // the samples between the edges, the end excluded
	Left, Right []OnLine
	Present     []uint64 // bitmap of the steps with a value
	Points      int      // number of them
}

// OnLine says where on the line between two samples a value lies: since ms after the
// first of them, of which the second comes apart ms later. Where apart is 0 it is no
// line but a sample.
type OnLine struct{ since, apart float64 }

// IsLine reports whether there is a line.
func (l OnLine) IsLine() bool { return l.apart != 0 }

// Between is Prometheus's interpolate, operation by operation. A counter that was reset
// starts from 0.
func (l OnLine) Between(first, second float64, counter bool) float64 {
	if counter && second < first {
		first = 0
	}
	return first + float64(float64((second-first)*l.since)/l.apart)
}

// Edges returns f's; a frame is only ever used for one function.
func (f *Frame) Edges(instant bool) *Edges {
	f.extraMade.Do(func() { f.ends.make(f, instant) })
	return &f.ends
}

// make finds the edges of the windows of f, those of a smoothed instant selector if
// instant is set.
func (e *Edges) make(f *Frame, instant bool) {
	steps := len(f.Lo)
	for _, s := range []*[]int32{&e.First, &e.Last, &e.From, &e.To} {
		*s = slices.Grow((*s)[:0], steps)[:steps]
		copy(*s, f.Hi)
	}
	for _, s := range []*[]OnLine{&e.Left, &e.Right} {
		*s = slices.Grow((*s)[:0], steps)[:steps]
		clear(*s)
	}
	e.Present = slices.Grow(e.Present[:0], len(f.Any))[:len(f.Any)]
	clear(e.Present)
	e.Points = 0
	x := f.Span.Extension
	width := f.Span.Width - x.Before - x.After
	f.List()
	inside, behind := int32(0), int32(0) // the first samples behind the start and not before the end
	for k, strides := f.From, [2]int{}; k < f.To; k++ {
		lo, hi := f.Lo[k], f.Hi[k]
		if lo == hi {
			continue
		}
		end := f.Span.Scan.Times(f.Span.Grid.At(k)) - x.After
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
			dense.Row{Present: e.Present}.Mark(k, 1)
			e.Points++
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
func (e *Edges) find(f *Frame, k int, inside, behind int32, start, end int64) bool {
	lo, hi := f.Lo[k], f.Hi[k]
	smoothed := f.Span.Extension.Modifier == plan.Smoothed
	first, last := max(lo, inside-1), hi-1
	if smoothed {
		last = min(behind, last)
	}
	if inside == hi || smoothed && f.ts[first] > end {
		return false
	}
	e.First[k], e.Last[k] = first, last
	if smoothed && f.ts[first] < start {
		e.Left[k] = OnLine{float64(start - f.ts[first]), float64(f.ts[first+1] - f.ts[first])}
	}
	if smoothed && f.ts[last] > end {
		e.Right[k] = OnLine{float64(end - f.ts[last-1]), float64(f.ts[last] - f.ts[last-1])}
	}
	e.From[k], e.To[k] = first, last+1
	if f.ts[first] <= start {
		e.From[k]++
	}
	if f.ts[last] >= end {
		e.To[k]--
	}
	return true
}

// findInstant is find for a smoothed instant selector at the time at (ms): only the
// right edge counts.
func (e *Edges) findInstant(f *Frame, k int, behind int32, at int64) bool {
	lo, hi := f.Lo[k], f.Hi[k]
	switch {
	case behind < hi && f.ts[behind] == at:
		e.Last[k] = behind
	case behind > lo && behind < hi:
		e.Last[k] = behind
		e.Right[k] = OnLine{float64(at - f.ts[behind-1]), float64(f.ts[behind] - f.ts[behind-1])}
	case behind > lo:
		e.Last[k] = behind - 1
	default:
		return false
	}
	return true
}

// Bounds are the windows of f from their first edges on.
func (e *Edges) Bounds(f *Frame) *Bounds { return &Bounds{Lo: e.First, Hi: f.Hi} }
