package frame

import (
	"math"
	"slices"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Lines are how far the samples of a frame's windows are from what least-squares lines through them count
// from. That takes more memory than a frame, so it is not part of one: each goroutine has Lines, of the
// frame that it had last. The next series has the same, mostly. Windows of as many samples at the same even
// distances have the same, also where the next frame has them.
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
	alike   exact.Distances   // of the last window whose samples are equally far from each other,
	evenly  [3]int64          // how far, and how far the first is from the origin, ms, and how many they are
	memory  []float64
	origins []int64 // of a stride
	ts      []int64 // all times, nil while they are not wanted
	joined  []int64 // memory for them
}

// mostDistances is how many samples windows have whose distances are retained.
const mostDistances = 1 << 16

// Few makes l those of f of which few windows are wanted, by Window. The origin of a window is its step,
// if predict is set, or its first sample.
func (l *Lines) Few(f *Frame, predict bool) {
	l.of, l.number, l.predict, l.ts = f, f.number, predict, nil
	l.reach, l.windows, l.memory = exact.Reach{}, l.windows[:0], l.memory[:0]
	if l.evenly[0] > 0 && !predict {
		l.memory = l.alike.Move(l.memory)
		return
	}
	l.evenly = [3]int64{} // steps of another frame are mostly elsewhere between its samples
}

// Set makes l those of f, as Few does, unless it has them.
func (l *Lines) Set(f *Frame, predict bool) {
	if l.number == f.number && l.reach.Samples > 0 {
		return
	}
	l.Few(f, predict)
	gap := int64(math.MaxInt64)
	for _, r := range f.runs.Even { // without which it is not known
		if gap = min(gap, r.Every-r.Late); r.From > 0 {
			gap = min(gap, f.At(int(r.From))-f.At(int(r.From)-1))
		}
	}
	l.reach = exact.Reach{Samples: f.Most, Gap: float64(gap) / 1e3}
	l.Strides, l.Rest = nil, nil
	if uint64(f.At(f.n-1)-f.At(0)) < 1<<50 {
		l.Strides, l.Rest = f.Bunches()
	}
	l.Times = slices.Grow(l.Times[:cap(l.Times)], max(0, len(l.Strides)-cap(l.Times)))[:len(l.Strides)]
	for i := range l.Strides {
		s := &l.Strides[i]
		windows := s.Number()
		if s.Steps == nil { // all windows may be as far from their origins
			every := f.every(f.Lo[s.From], f.Hi[s.To-1])
			if every > 0 && (!predict || int64(s.Every)*every == f.Span.Grid.Interval) {
				windows = exact.LeastRows
			}
		}
		l.origins = l.origins[:0]
		ts := l.list()
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
			l.set(&l.windows[k], k)
		}
	})
}

// every is the distance of the samples lo to hi from each other, ms: 0 where they have several.
func (f *Frame) every(lo, hi int32) int64 {
	runs := f.runs.Even
	k := sort.Search(len(runs), func(k int) bool { return runs[k].To > lo })
	if f.runs.Late != nil || k == len(runs) || hi > runs[k].To {
		return 0
	}
	return runs[k].Every
}

// list returns all times in ms. They are the goroutine's, and near, while a frame's have to be fetched.
func (l *Lines) list() []int64 {
	if l.ts == nil {
		l.ts = l.of.of.Join(l.of.tail, &l.joined)
	}
	return l.ts
}

// set makes d the distances of step k's samples.
func (l *Lines) set(d *exact.Distances, k int) {
	lo, hi := l.of.Lo[k], l.of.Hi[k]
	first := l.of.At(int(lo))
	origin := l.of.Span.Origin(first, k, l.predict)
	even := [3]int64{l.of.every(lo, hi), first - origin, int64(hi - lo)}
	if even[0] > 0 && even == l.evenly {
		*d = l.alike
		d.Reached(&l.reach)
		return
	}
	begin, n := len(l.memory), int(hi-lo)
	if begin+n > cap(l.memory) {
		begin, l.memory = 0, make([]float64, 0, max(n, 2*cap(l.memory)))
	}
	l.memory = l.memory[:begin+n]
	d.Set(l.list()[lo:hi], origin, l.memory[begin:], &l.reach)
	if even[0] > 0 {
		l.alike, l.evenly = *d, even
	}
}

// Units are for the lines of Rest through values of the magnitudes.
func (l *Lines) Units(of exact.Magnitudes) exact.Units { return l.reach.Units(of) }

// Window returns the distances of the samples of step k: two at least, and of no stride.
func (l *Lines) Window(k int) *exact.Distances {
	if len(l.windows) > 0 {
		return &l.windows[k]
	}
	l.memory, l.reach.Gap, l.evenly = l.memory[:0], 0, [3]int64{}
	l.set(&l.single, k)
	return &l.single
}

// InOrder is the line through the samples of step k, which have the values, by Prometheus's operations.
func (l *Lines) InOrder(k int, vs []float64) (slope, intercept float64) {
	ts := l.list()[l.of.Lo[k]:l.of.Hi[k]]
	return exact.Line(ts, vs, l.of.Span.Origin(ts[0], k, l.predict))
}

// Origin is the time that lines through the samples of step k's window, the first of which is at the
// given time, count from.
func (s *Span) Origin(first int64, k int, predict bool) int64 {
	if predict {
		return s.Grid.At(k)
	}
	return first
}
