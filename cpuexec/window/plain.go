package window

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/frame"
)

// Window is one window, as a plain form sees it.
type Window struct {
	Times        []int64   // of its samples, ms; there is at least one
	Values       []float64 // none is a stale marker
	Param, Trend float64   // of functions that have them
	span         *frame.Span
	step         int
	scratch      []float64
}

// Step is the time of the step, ms.
func (w *Window) Step() int64 { return w.span.Grid.At(w.step) }

// End is the end of the window, which is in it, ms.
func (w *Window) End() int64 { return w.span.Scan.Times(w.Step()) }

// Start is the start of the window, which is not in it, ms.
func (w *Window) Start() int64 { return w.End() - w.span.Width }

// copied returns the values of the window in memory that may be changed.
func (w *Window) copied() []float64 {
	w.scratch = append(w.scratch[:0], w.Values...)
	return w.scratch
}

// plain computes what is called window by window.
func (s *Evaluator) plain() (points int) {
	f, b, w := s.call.Func.Plain, &s.bounds, &s.window
	cur := dense.Cursor{Row: s.out}
	defer cur.Flush()
	w.Param, w.Trend, w.span = s.call.Param, s.call.Trend, &s.fr.Span
	ts, vs, varying := s.fr.List(), s.values(), &s.call.Varying
	varies := varying[0] != nil
	for k, i := range b.Lo {
		j := b.Hi[k]
		if i == j {
			continue
		}
		if b.GiveUp(k) {
			break
		}
		if w.Times, w.Values, w.step = ts[i:j], vs[i:j], k; varies {
			w.vary(varying, k)
		}
		if v, ok := f(w); ok {
			cur.Set(k, v)
			points++
		}
	}
	w.Times, w.Values, w.span = nil, nil, nil
	return points
}

// vary sets the parameters to those of step k.
func (w *Window) vary(v *Varying, k int) {
	for i, p := range []*float64{&w.Param, &w.Trend} {
		if v[i] != nil {
			*p = v[i][k]
		}
	}
}
