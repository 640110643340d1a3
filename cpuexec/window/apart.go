package window

import "github.com/promwarp/promwarp/cpuexec/exact"

// This file is for series whose samples come late, each by something else: hardly any window
// has the shape of another.

// makeEach makes e for windows of which each may have a shape of its own, several at once. First how
// long the first and the last sample come after the window's ends takes the place of near and factor.
func (e *extrapolation) makeEach(f *frame, seconds float64) {
	e.of, e.each = f, seconds
	e.points = f.mark(e.pairs, 2)
	nears, factors := e.near[f.from:f.to], e.factor[f.from:f.to]
	lo, hi := f.lo[f.from:f.to], f.hi[f.from:f.to]
	width, end, interval := f.span.Width, f.span.Scan.Times(f.span.Grid.At(f.from)), f.span.Grid.Interval
	if runs := f.span.useful(f.runs); len(runs.Even) > 0 {
		runs.Since(lo, 0, end-width, interval, nears)
		runs.Since(hi, 1, end, interval, factors)
	} else {
		if f.span.Scan.Fixed != nil {
			interval = 0
		}
		ts := f.list()
		for k, at := range hi {
			if i := lo[k]; at-i >= 2 {
				nears[k], factors[k] = float64(ts[i]-end+width), float64(ts[at-1]-end)
			}
			end += interval
		}
	}
	for k := 0; k < len(lo); {
		k += extrapolations(factors[k:], nears[k:], lo[k:], hi[k:], width, e.each)
		for stop := min(k+exact.Lanes, len(lo)); k < stop; k++ {
			if n := int(hi[k] - lo[k]); n >= 2 {
				factors[k], nears[k] = e.alone(n, int64(nears[k]), -int64(factors[k]))
			}
		}
	}
}

// alone is what makeEach makes of one window of n samples: the first comes lead ms after the
// window's start, the last trail ms before its end.
func (e *extrapolation) alone(n int, lead, trail int64) (factor, near float64) {
	sh := newShape(n, lead, trail, e.of.span.Width-lead-trail, e.each)
	return sh.factor, sh.near()
}

// makeLast makes e for the last two samples of each window.
func (e *extrapolation) makeLast(f *frame, kind difference) {
	e.points = f.mark(e.pairs, 2)
	hi, factors := f.hi[f.from:f.to], e.factor[f.from:f.to]
	switch {
	case kind == gaugeLast:
	case len(f.runs.Even) > 0:
		f.runs.Apart(hi, factors)
	default:
		ts := f.list()
		for k, n := range hi {
			if n >= 2 {
				factors[k] = float64(ts[n-1]-ts[n-2]) / 1000
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
