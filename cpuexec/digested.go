package cpuexec

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/digest"
	"github.com/promwarp/promwarp/plan"
)

// This file evaluates windows of many chunks from digests of these (column.Digests): what a step
// costs is then the few chunks at its ends, however long its window is.

// digested is what evaluates a window's series from digests.
type digested struct {
	window *plan.Window
	grid   plan.Grid
	form   *digest.Form
	q      *column.Request
}

// leastChunks are the chunks of a window that are decoded as fast as they are found by digests: some 4000
// samples, 12 µs. A test lowers it.
var leastChunks = 32

// digests returns what evaluates the window from digests, or nil if that cannot be.
func (s *selected) digests(q *column.Request) *digested {
	w, job, form := s.w, &s.r.job, digest.Of(s.call.Func.GPU)
	if form == nil || job.Grid.Steps == 0 || w.Extension.Modifier != plan.Unmodified || job.StartTimestamps {
		return nil
	}
	q.Table, q.LeastChunks = q.Sel.Table(), leastChunks
	return &digested{window: w, grid: job.Grid, form: form, q: q}
}

// evaluate is windowing.evaluate of series i alone. It reports false where all samples are to be
// read, and how many samples are in the windows.
func (d *digested) evaluate(s *worker, i int, out dense.Row, c *dense.Counts) (samples int, ok bool, err error) {
	steps := d.grid.Steps
	v, ok, err := s.Digests(d.q, d.form.Kind, steps, i)
	if !ok || err != nil {
		return 0, false, err
	}
	b := &s.windows
	b.Lo, b.Hi = slices.Grow(b.Lo[:0], steps)[:steps], slices.Grow(b.Hi[:0], steps)[:steps]
	most := int32(0)
	before := s.Stats.Digested
	for k := range steps {
		var w column.Digested
		end := d.window.Scan.Times(d.grid.At(k))
		ok, err = s.Window(d.q, &v, end-d.window.Width, end, &w)
		if ok {
			out.Values[k], ok = d.form.Value(&w)
		}
		if !ok || err != nil {
			s.Stats.Digested = before
			return 0, false, err
		}
		b.Lo[k], b.Hi[k] = w.Lo, w.Hi
		most = max(most, w.Hi-w.Lo)
	}
	out.Mark(0, steps)
	*c = dense.Counts{Points: steps, MaxWindow: int(most), LastWindow: int(b.Hi[steps-1] - b.Lo[steps-1])}
	if s.Counts != nil {
		s.Counts.Add(b, false)
	}
	return int(b.Hi[steps-1] - b.Lo[0]), true, nil
}
