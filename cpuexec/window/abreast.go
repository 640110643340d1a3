package window

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
)

// adder makes of samples at ts, if it needs these, what a function comes to in the windows of a group,
// by Prometheus's operations in its order.
type adder func(ts []int64, vs []float64, g *frame.Group, out *[exact.Abreast]float64)

// waiting are the windows of several series, one of each, until there are as many as are added up side
// by side. Their samples are copies, since those of a series are there while it is evaluated.
type waiting struct {
	group  frame.Group
	rows   [exact.Abreast]dense.Row
	add    adder
	times  []int64
	values []float64
	out    [exact.Abreast]float64 // what add makes of windows
}

// strided fills in what do makes of windows with many samples in common, side by side in rows: of the
// steps of each stride the values. It returns how many they are.
func (s *Evaluator) strided(runs []frame.Stride, do func(st *frame.Stride, out []float64)) (points int) {
	vs := s.values()
	for i := range runs {
		st := &runs[i]
		n := st.To - st.From
		if s.bounds.GiveUpAfter(n * st.Samples) {
			break
		}
		s.rows.Set(vs[s.bounds.Lo[st.From]:], st.Every, st.Samples, n)
		do(st, s.out.Values[st.From:st.To])
		s.out.Mark(st.From, n)
		points += n
	}
	return points
}

// mostWaiting is how many samples a window has at most that waits for others: eight are half as large
// as a core's cache, or less.
const mostWaiting = 1 << 15

// abreast fills out with what add makes of the windows, of the given steps or of all, that have so many
// samples or more, and returns how many do. The only window of a series may wait for those of others: see
// Finish. ts are times that add needs, or nil.
func (s *Evaluator) abreast(least int, ts []int64, steps []int32, add adder) (points int) {
	vs, b, w := s.values(), &s.bounds, &s.waiting
	if steps == nil && s.fr.Span.Grid.Steps == 1 && b.Most <= mostWaiting {
		if b.Most < least {
			return 0
		}
		lo, hi, from := b.Lo[0], b.Hi[0], int32(len(w.values))
		w.values = append(w.values, vs[lo:hi]...)
		if ts != nil {
			w.times = append(w.times, ts[lo:hi]...)
		}
		w.add, w.rows[w.group.N] = add, s.out
		if w.group.Add(0, from, from+hi-lo) {
			s.Finish()
		}
		return 1
	}
	cur := dense.Cursor{Row: s.out}
	b.Groups(int32(least), steps, func(g *frame.Group) {
		add(ts, vs, g, &w.out)
		for i, k := range g.Steps[:g.N] {
			cur.Set(int(k), w.out[i])
		}
		points += g.N
	})
	cur.Flush()
	return points
}

// fill gives the rows their values, and empties w.
func (w *waiting) fill(g *frame.Group) {
	w.add(w.times, w.values, g, &w.out)
	for i := range g.N {
		w.rows[i].Set(0, w.out[i])
		w.rows[i] = dense.Row{}
	}
	w.add, w.times, w.values = nil, w.times[:0], w.values[:0]
}

// Finish gives the rows that Evaluate was called for on a grid of one step the values that they do not
// have yet.
func (s *Evaluator) Finish() { s.waiting.group.Finish(s.waiting.fill) }
