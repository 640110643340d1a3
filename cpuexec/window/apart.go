package window

import "github.com/promwarp/promwarp/cpuexec/exact"

// This file is for series whose samples come late, each by something else: hardly any window
// has the shape of another.

// makeEach makes e for windows of which each may have a shape of its own, several at once.
// First how long the first and the last sample come after the window's ends takes the place of
// near and factor.
func (e *extrapolation) makeEach(f *frame, seconds float64) {
	e.of, e.each = f, seconds
	e.points = f.mark(e.pairs, 2)
	lo, hi := f.lo[f.from:f.to], f.hi[f.from:f.to]
	firsts, lasts := e.near[f.from:f.to], e.factor[f.from:f.to]
	width, end, interval := f.span.Width, f.span.Scan.Times(f.span.Grid.At(f.from)), f.span.Grid.Interval
	if runs := f.span.useful(f.runs); len(runs.Even) > 0 {
		runs.Since(lo, 0, end-width, interval, firsts)
		runs.Since(hi, 1, end, interval, lasts)
	} else {
		if f.span.Scan.Fixed != nil {
			interval = 0
		}
		ts := f.list()
		for k, at := range hi {
			if i := lo[k]; at-i >= 2 {
				firsts[k], lasts[k] = float64(ts[i]-end+width), float64(ts[at-1]-end)
			}
			end += interval
		}
	}
	for k := 0; k < len(lo); {
		k += extrapolations(lasts[k:], firsts[k:], lo[k:], hi[k:], width, seconds)
		for stop := min(k+exact.Lanes, len(lo)); k < stop; k++ {
			if n := int(hi[k] - lo[k]); n >= 2 {
				lead, trail := int64(firsts[k]), -int64(lasts[k])
				sh := newShape(n, lead, trail, width-lead-trail, seconds)
				lasts[k], firsts[k] = sh.factor, sh.near()
			}
		}
	}
}

// shapeAt is the shape of step k.
func (e *extrapolation) shapeAt(k int) *shape {
	f := e.of
	if f == nil {
		return &e.shapes[e.shape[k]]
	}
	end := f.span.Scan.Times(f.span.Grid.At(k))
	first, final := f.at(int(f.lo[k])), f.at(int(f.hi[k])-1)
	sh := newShape(int(f.hi[k]-f.lo[k]), first-(end-f.span.Width), end-final, final-first, e.each)
	return &sh
}
