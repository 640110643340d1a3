package window

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
)

// adder makes what a function comes to of the windows of a group, by Prometheus's operations in its
// order.
type adder func(w *exact.Windows, g *frame.Group, out *[exact.Abreast]float64)

// waiting are the windows of several series, one of each, until there are as many as are added up side
// by side. Where their samples are not retained they are copies, since those of a series are there while
// it is evaluated.
type waiting struct {
	group   frame.Group
	windows exact.Windows
	rows    [exact.Abreast]dense.Row
	add     adder
	copies  []float64
	out     [exact.Abreast]float64 // what add makes of windows
}

// strided fills in what do makes of windows with many samples in common, side by side in rows: of the
// steps of each stride, or bunch, the values. It returns how many they are.
func (s *Evaluator) strided(runs []frame.Stride, do func(st *frame.Stride, out []float64)) (points int) {
	vs := s.values()
	for i := range runs {
		st := &runs[i]
		n := st.Number()
		if s.bounds.GiveUpAfter(n * st.Samples) {
			break
		}
		points += n
		if st.Steps == nil {
			s.rows.Set(vs[s.bounds.Lo[st.From]:], st.Every, st.Samples, n)
			do(st, s.out.Values[st.From:st.To])
			s.out.Mark(st.From, n)
			continue
		}
		s.rows.Gather(vs, st.Firsts, st.Samples)
		s.bunch = slices.Grow(s.bunch[:0], n)[:n]
		do(st, s.bunch)
		for i, k := range st.Steps {
			s.out.Set(int(k), s.bunch[i])
		}
	}
	return points
}

// mostWaiting is how many samples a window has at most that waits for others: copies of eight are half
// as large as a core's cache, or less.
const mostWaiting = 1 << 15

// abreast fills out with what add makes of the windows with samples, of the given steps or of all, and
// returns how many they are. The only window of a series may wait for those of others: see Finish.
func (s *Evaluator) abreast(steps []int32, add adder) (points int) {
	vs, b, w := s.values(), &s.bounds, &s.waiting
	if steps != nil || s.fr.Span.Grid.Steps > 1 || b.Most > mostWaiting {
		cur := dense.Cursor{Row: s.out}
		b.Groups(1, steps, func(g *frame.Group) {
			windows := g.Windows(vs)
			add(&windows, g, &w.out)
			for i, k := range g.Steps[:g.N] {
				cur.Set(int(k), w.out[i])
			}
			points += g.N
		})
		cur.Flush()
		return points
	}
	if b.Most == 0 {
		return 0
	}
	lo, hi := b.Lo[0], b.Hi[0]
	window := vs[lo:hi]
	if !s.in.Stays() {
		w.copies = append(w.copies, window...)
		window = w.copies[len(w.copies)-len(window):]
	}
	w.add, w.rows[w.group.N], w.windows[w.group.N] = add, s.out, window
	if w.group.Add(0, lo, hi) {
		s.Finish()
	}
	return 1
}

// fill gives the rows their values, and empties w.
func (w *waiting) fill(g *frame.Group) {
	for i := g.N; i < len(w.windows); i++ {
		w.windows[i] = w.windows[g.N-1]
	}
	w.add(&w.windows, g, &w.out)
	for i := range g.N {
		w.rows[i].Set(0, w.out[i])
	}
	w.add, w.copies, w.rows, w.windows = nil, w.copies[:0], [exact.Abreast]dense.Row{}, exact.Windows{}
}

// Finish gives the rows that Evaluate was called for on a grid of one step the values that they do not
// have yet.
func (s *Evaluator) Finish() { s.waiting.group.Finish(s.waiting.fill) }
