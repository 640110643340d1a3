package frame

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Lines are how far the samples of a frame's windows are from what least-squares lines through them count
// from. That takes more memory than a frame, so it is not part of one: each goroutine has Lines, of the
// frame that it had last. The next series has the same, mostly.
type Lines struct {
	Strides []Stride
	Times   []exact.Times // of Strides
	Rest    []int32       // the other steps, nil for all

	of      *Frame
	number  uint64 // of the frame
	predict bool
	windows []exact.Distances // of the rest, by step, where there are few samples in them
	reach   exact.Reach       // of the rest
	single  exact.Distances   // of one, where they are not retained
	memory  []float64
	origins []int64 // of a stride
}

// mostDistances is how many samples windows have whose distances are retained.
const mostDistances = 1 << 16

// Few makes l those of f of which few windows are wanted, by Window. The origin of a window is its step,
// if predict is set, or its first sample.
func (l *Lines) Few(f *Frame, predict bool) {
	l.of, l.number, l.predict = f, f.number, predict
	l.reach, l.windows, l.memory = exact.Reach{}, l.windows[:0], l.memory[:0]
}

// Set makes l those of f, as Few does, unless it has them.
func (l *Lines) Set(f *Frame, predict bool) {
	if l.number == f.number && l.reach.Samples > 0 {
		return
	}
	ts := f.List()
	l.Few(f, predict)
	gap := int64(math.MaxInt64)
	for _, r := range f.runs.Even { // without which it is not known
		if gap = min(gap, r.Every-r.Late); r.From > 0 {
			gap = min(gap, f.At(int(r.From))-f.At(int(r.From)-1))
		}
	}
	l.reach = exact.Reach{Samples: f.Most, Gap: float64(gap) / 1e3}
	l.Strides, l.Rest = nil, nil
	if uint64(ts[len(ts)-1]-ts[0]) < 1<<50 {
		l.Strides, l.Rest = f.Bunches()
	}
	l.Times = slices.Grow(l.Times[:cap(l.Times)], max(0, len(l.Strides)-cap(l.Times)))[:len(l.Strides)]
	for i := range l.Strides {
		s := &l.Strides[i]
		windows := s.Number()
		if f.alikeIn(s, predict) {
			windows = exact.LeastRows
		}
		l.origins = l.origins[:0]
		for i := range windows {
			k := s.Step(i)
			l.origins = append(l.origins, f.Span.Origin(ts[f.Lo[k]], k, predict))
		}
		l.Times[i].Set(&exact.TimedWindows{
			Times: ts, Origins: l.origins, First: int(f.Lo[s.Step(0)]), Every: s.Every, Samples: s.Samples, Firsts: s.Firsts,
			Gap: l.reach.Gap, Number: s.Number(),
		})
	}
	if f.total > mostDistances {
		return
	}
	l.windows = slices.Grow(l.windows, len(f.Lo))[:len(f.Lo)]
	b := f.Watched(nil) // all of them, or lines would be through others
	b.Chosen(l.Rest, func(k int, lo, hi int32) {
		if hi-lo >= 2 {
			l.set(&l.windows[k], k, ts[lo:hi])
		}
	})
}

// alikeIn reports whether the samples of all windows of a stride are as far from their origins.
func (f *Frame) alikeIn(s *Stride, predict bool) bool {
	if s.Steps != nil {
		return false
	}
	lo, hi := f.Lo[s.From], f.Hi[s.To-1]
	return f.runs.Late == nil && slices.ContainsFunc(f.runs.Even, func(r column.EvenRun) bool {
		return r.From <= lo && hi <= r.To && (!predict || int64(s.Every)*r.Every == f.Span.Grid.Interval)
	})
}

// set makes d the distances of step k's samples.
func (l *Lines) set(d *exact.Distances, k int, ts []int64) {
	begin := len(l.memory)
	if begin+len(ts) > cap(l.memory) {
		begin, l.memory = 0, make([]float64, 0, max(len(ts), 2*cap(l.memory)))
	}
	l.memory = l.memory[:begin+len(ts)]
	d.Set(ts, l.of.Span.Origin(ts[0], k, l.predict), l.memory[begin:], &l.reach)
}

// Units are for the lines of Rest through values of the magnitudes.
func (l *Lines) Units(of exact.Magnitudes) exact.Units { return l.reach.Units(of) }

// Window returns the distances of the samples of step k, at ts: two at least, and of no stride.
func (l *Lines) Window(k int, ts []int64) *exact.Distances {
	if len(l.windows) > 0 {
		return &l.windows[k]
	}
	l.memory, l.reach.Gap = l.memory[:0], 0
	l.set(&l.single, k, ts)
	return &l.single
}

// Origin is the time that lines through the samples of step k's window, the first of which is at the
// given time, count from.
func (s *Span) Origin(first int64, k int, predict bool) int64 {
	if predict {
		return s.Grid.At(k)
	}
	return first
}
