package frame

import (
	"slices"
	"time"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// shape is what the extrapolation of a window depends on besides its values. At
// regular scrapes all windows of a series have the same, or a few.
type shape struct {
	n           int   // samples
	lead, trail int64 // ms from the window's start to its first sample, and from its last to the end
	seconds     float64
	covered     float64 // seconds from the first sample to the last
	toStart     float64 // seconds to extrapolate before the first sample
	toEnd       float64 // and after the last
	factor      float64
}

// newShape makes the shape of a window of n samples that cover so many ms.
// seconds divides the result; 0 stands for none.
func newShape(n int, lead, trail, covered int64, seconds float64) shape {
	sh := shape{n: n, lead: lead, trail: trail, seconds: seconds, covered: float64(covered) / 1000}
	spacing := sh.covered / float64(n-1)
	threshold := float64(spacing * 1.1)
	if sh.toStart = float64(lead) / 1000; sh.toStart >= threshold {
		sh.toStart = spacing / 2
	}
	if sh.toEnd = float64(trail) / 1000; sh.toEnd >= threshold {
		sh.toEnd = spacing / 2
	}
	sh.factor = sh.extrapolate(sh.toStart)
	return sh
}

// extrapolate is the factor from the increase between samples to that of the
// window, when it is extended by toStart seconds before the first sample.
func (sh *shape) extrapolate(toStart float64) float64 {
	f := (sh.covered + toStart + sh.toEnd) / sh.covered
	if sh.seconds != 0 {
		f /= sh.seconds
	}
	return f
}

// near is how many times its increase a counter must be beyond at the window's start for the
// way to zero not to matter: see FactorOf.
func (sh *shape) near() float64 { return sh.toStart / sh.covered * (1 + slack) }

// Extrapolation is what the windows of a frame are extrapolated by.
type Extrapolation struct {
	Factor []float64 // of each step; of last pairs the seconds to divide by
	shape  []int32   // of each step, an index into shapes, or
	shapes []shape
	of     *Frame // where each window may have another shape, and what divides it
	each   float64
	Near   []float64 // of each step, see FactorOf
	Pairs  []uint64  // bitmap of the steps with two samples or more
	Points int       // number of them
}

// recent is the number of shapes that a new window is compared with: where
// samples are regular, a few take turns.
const recent = 8

// Extrapolation returns what f's windows are extrapolated by to their ends; seconds divides the
// factors, 0 stands for none. A frame is only ever used for one function.
func (f *Frame) Extrapolation(seconds float64) *Extrapolation {
	f.extraMade.Do(func() {
		f.extra.reset(f)
		f.extra.make(f, seconds)
	})
	return &f.extra
}

// LastPairs returns which of f's windows have two samples or more and, where apart is set, how many
// seconds the last two are apart.
func (f *Frame) LastPairs(apart bool) *Extrapolation {
	f.extraMade.Do(func() {
		f.extra.reset(f)
		f.extra.makeLast(f, apart)
	})
	return &f.extra
}

// reset makes room for the windows of f.
func (e *Extrapolation) reset(f *Frame) {
	steps := len(f.Lo)
	e.Points, e.of = 0, nil
	e.Factor = slices.Grow(e.Factor[:0], steps)[:steps]
	e.shape = slices.Grow(e.shape[:0], steps)[:steps]
	e.Near = slices.Grow(e.Near[:0], steps)[:steps]
	e.shapes = e.shapes[:0]
	e.Pairs = slices.Grow(e.Pairs[:0], len(f.Any))[:len(f.Any)]
	clear(e.Pairs)
}

// make computes e for the windows of f.
func (e *Extrapolation) make(f *Frame, seconds float64) {
	even, last := f.Span.useful(f.runs).Even, 0
	if f.runs.Late != nil || len(even) == 0 {
		e.makeEach(f, seconds)
		return
	}
	for k, same := f.From, 1; k < f.To; k += same {
		same = f.alike(k, &even, f.Span.Grid.Interval)
		n := int(f.Hi[k] - f.Lo[k])
		if n < 2 {
			continue
		}
		dense.Row{Present: e.Pairs}.Mark(k, same)
		e.Points += same
		last = e.shapeOf(f, k, even, last, seconds)
		factor, near := e.shapes[last].factor, e.shapes[last].near()
		factors, shapes, nears := e.Factor[k:k+same], e.shape[k:k+same], e.Near[k:k+same]
		for i := range factors {
			factors[i], shapes[i], nears[i] = factor, int32(last), near
		}
	}
}

// SecondsOf is so many ms in seconds, rounded as Prometheus's engine does.
func SecondsOf(ms int64) float64 { return (time.Duration(ms) * time.Millisecond).Seconds() }

// shapeOf returns the index of the shape of step k, of whose samples even are the times; guess is
// tried first.
func (e *Extrapolation) shapeOf(f *Frame, k int, even column.EvenRuns, guess int, seconds float64) int {
	end, n := f.Span.Scan.Times(f.Span.Grid.At(k)), int(f.Hi[k]-f.Lo[k])
	first, final := even.At(f.Lo[k]), even.At(f.Hi[k]-1)
	i := e.find(guess, n, first-(end-f.Span.Width), end-final)
	if i == len(e.shapes) {
		sh := newShape(n, first-(end-f.Span.Width), end-final, final-first, seconds)
		e.shapes = append(e.shapes, sh)
	}
	return i
}

// find returns the index of the shape of n samples with the given lead and trail
// (ms), or the number of shapes if it is not among the last ones. guess is tried
// first.
func (e *Extrapolation) find(guess, n int, lead, trail int64) int {
	is := func(i int) bool {
		s := &e.shapes[i]
		return s.n == n && s.lead == lead && s.trail == trail
	}
	if guess < len(e.shapes) && is(guess) {
		return guess
	}
	for i := max(len(e.shapes)-recent, 0); i < len(e.shapes); i++ {
		if is(i) {
			return i
		}
	}
	return len(e.shapes)
}

// FactorOf is the factor of step k for a counter. That is never negative, so it is
// not extrapolated below zero: not further than the way to there,
//
//	covered * (first / increase) < to start
//
// Whether that may be so is asked without dividing, with some slack for what is
// rounded on either side.
func (e *Extrapolation) FactorOf(k int, first, increase float64) float64 {
	if first <= float64(increase*e.Near[k])+Tiny && increase > 0 && first >= 0 {
		sh := e.shapeAt(k)
		if toZero := float64(sh.covered * (first / increase)); toZero < sh.toStart {
			return sh.extrapolate(toZero)
		}
	}
	return e.Factor[k]
}

// slack is relative. Tiny is the slack of products that are not normal numbers.
const slack, Tiny = 1e-12, 1e-290

// What follows is for series whose samples come late, each by something else: hardly any window
// has the shape of another.

// makeEach makes e for windows of which each may have a shape of its own, several at once. First how
// long the first and the last sample come after the window's ends takes the place of near and factor.
func (e *Extrapolation) makeEach(f *Frame, seconds float64) {
	e.of, e.each = f, seconds
	e.Points = f.mark(e.Pairs, 2)
	nears, factors := e.Near[f.From:f.To], e.Factor[f.From:f.To]
	lo, hi := f.Lo[f.From:f.To], f.Hi[f.From:f.To]
	width, end, interval := f.Span.Width, f.Span.Scan.Times(f.Span.Grid.At(f.From)), f.Span.Grid.Interval
	if runs := f.Span.useful(f.runs); len(runs.Even) > 0 {
		runs.Since(lo, 0, end-width, interval, nears)
		runs.Since(hi, 1, end, interval, factors)
	} else {
		if f.Span.Scan.Fixed != nil {
			interval = 0
		}
		ts := f.List()
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
func (e *Extrapolation) alone(n int, lead, trail int64) (factor, near float64) {
	sh := newShape(n, lead, trail, e.of.Span.Width-lead-trail, e.each)
	return sh.factor, sh.near()
}

// makeLast makes e for the last two samples of each window.
func (e *Extrapolation) makeLast(f *Frame, apart bool) {
	e.Points = f.mark(e.Pairs, 2)
	hi, factors := f.Hi[f.From:f.To], e.Factor[f.From:f.To]
	switch {
	case !apart:
	case len(f.runs.Even) > 0:
		f.runs.Apart(hi, factors)
	default:
		ts := f.List()
		for k, n := range hi {
			if n >= 2 {
				factors[k] = float64(ts[n-1]-ts[n-2]) / 1000
			}
		}
	}
}

// shapeAt is the shape of step k.
func (e *Extrapolation) shapeAt(k int) *shape {
	f := e.of
	if f == nil {
		return &e.shapes[e.shape[k]]
	}
	end := f.Span.Scan.Times(f.Span.Grid.At(k))
	first, final := f.At(int(f.Lo[k])), f.At(int(f.Hi[k])-1)
	sh := newShape(int(f.Hi[k]-f.Lo[k]), first-(end-f.Span.Width), end-final, final-first, e.each)
	return &sh
}
