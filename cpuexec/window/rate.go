package window

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions of the difference between a window's first and last sample.

var (
	_ = defineRate(plan.WindowFunc{Name: "rate", Counter: true, StartTime: true}, counterRate, "Rate", Counter)
	_ = defineRate(plan.WindowFunc{Name: "increase", Counter: true, StartTime: true}, counterIncrease, "Increase", Counter)
	_ = defineRate(plan.WindowFunc{Name: "delta"}, gaugeDelta, "Delta", FirstLast)
)

func defineRate(f plan.WindowFunc, kind difference, policy string, sees Sees) *plan.WindowFunc {
	f.Modifiers = []plan.Modifier{plan.Anchored, plan.Smoothed}
	definition := &Function{
		WindowFunc: f,
		Plain:      func(w *Window) (float64, bool) { return w.difference(kind) },
		Fast:       func(s *Evaluator) (int, bool) { return s.extrapolated(kind, s.resetsOf(kind)), true },
		Extended:   func(s *Evaluator, e *edges) { e.differences(s, kind) },
		Reads:      Ends,
		Sees:       sees,
		PerSecond:  kind == counterRate,
		GPU:        abi.Policy{Kernel: abi.ByRate, Name: policy},
	}
	if f.StartTime {
		definition.Started = func(s *Evaluator) int { return s.increases(kind) }
	}
	return define(definition)
}

// resetsOf returns the samples at which a function of a counter makes up for a reset.
func (s *Evaluator) resetsOf(kind difference) []int32 {
	if kind == gaugeDelta {
		return nil
	}
	return s.resets()
}

// difference is Prometheus's extrapolatedRate for floats.
func (w *Window) difference(kind difference) (float64, bool) {
	n := len(w.Values)
	if n < 2 {
		return 0, false
	}
	first, counter := w.Values[0], kind != gaugeDelta
	increase := w.Values[n-1] - first
	for i, v := range w.Values[1:] {
		if before := w.Values[i]; counter && v < before {
			increase += before
		}
	}
	toStart, toEnd := float64(w.Times[0]-w.Start())/1000, float64(w.End()-w.Times[n-1])/1000
	covered := float64(w.Times[n-1]-w.Times[0]) / 1000
	spacing := covered / float64(n-1)
	threshold := float64(spacing * 1.1)
	if toStart >= threshold {
		toStart = spacing / 2
	}
	if counter && increase > 0 && first >= 0 { // which is never extrapolated below zero
		toStart = math.Min(toStart, float64(covered*(first/increase)))
	}
	if toEnd >= threshold {
		toEnd = spacing / 2
	}
	factor := (covered + toStart + toEnd) / covered
	if kind == counterRate {
		factor /= secondsOf(w.span.Width)
	}
	return float64(increase * factor), true
}

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
// way to zero not to matter: see factorOf.
func (sh *shape) near() float64 { return sh.toStart / sh.covered * (1 + slack) }

// difference says what extrapolated makes of a window's first and last sample, or
// lastPairs of its last two.
type difference int

const (
	gaugeDelta      difference = iota // their difference
	counterIncrease                   // the same, with resets made up for and never below zero
	counterRate                       // that, per second
	gaugeLast                         // the difference of the last two samples
	counterLast                       // the same, per second and with resets made up for
)

// extrapolation is what the windows of a frame are extrapolated by.
type extrapolation struct {
	factor []float64 // of each step; of lastPairs the seconds to divide by
	shape  []int32   // of each step, an index into shapes, or
	shapes []shape
	of     *frame // where each window may have another shape, and what divides it
	each   float64
	near   []float64 // of each step, see factorOf
	pairs  []uint64  // bitmap of the steps with two samples or more
	points int       // number of them
}

// recent is the number of shapes that a new window is compared with: where
// samples are regular, a few take turns.
const recent = 8

// extrapolation returns f's, made for the given kind; a frame is only ever used
// for one.
func (f *frame) extrapolation(kind difference) *extrapolation {
	f.extraMade.Do(func() { f.extra.make(f, kind) })
	return &f.extra
}

// make computes e for the windows of f.
func (e *extrapolation) make(f *frame, kind difference) {
	seconds := 0.0
	if kind == counterRate {
		seconds = secondsOf(f.span.Width)
	}
	steps := len(f.lo)
	e.points, e.of = 0, nil
	e.factor = slices.Grow(e.factor[:0], steps)[:steps]
	e.shape = slices.Grow(e.shape[:0], steps)[:steps]
	e.near = slices.Grow(e.near[:0], steps)[:steps]
	e.shapes = e.shapes[:0]
	e.pairs = slices.Grow(e.pairs[:0], len(f.any))[:len(f.any)]
	clear(e.pairs)
	even, last := f.span.useful(f.runs).Even, 0
	switch {
	case kind == gaugeLast || kind == counterLast:
		e.makeLast(f, kind)
		return
	case f.runs.Late != nil || len(even) == 0:
		e.makeEach(f, seconds)
		return
	}
	for k, same := f.from, 1; k < f.to; k += same {
		same = f.alike(k, &even, f.span.Grid.Interval)
		n := int(f.hi[k] - f.lo[k])
		if n < 2 {
			continue
		}
		dense.Row{Present: e.pairs}.Mark(k, same)
		e.points += same
		last = e.shapeOf(f, k, even, last, seconds)
		factor, near := e.shapes[last].factor, e.shapes[last].near()
		factors, shapes, nears := e.factor[k:k+same], e.shape[k:k+same], e.near[k:k+same]
		for i := range factors {
			factors[i], shapes[i], nears[i] = factor, int32(last), near
		}
	}
}

// secondsOf is so many ms in seconds, rounded as Prometheus's engine does.
func secondsOf(ms int64) float64 { return (time.Duration(ms) * time.Millisecond).Seconds() }

// shapeOf returns the index of the shape of step k, of whose samples even are the times; guess is
// tried first.
func (e *extrapolation) shapeOf(f *frame, k int, even column.EvenRuns, guess int, seconds float64) int {
	end, n := f.span.Scan.Times(f.span.Grid.At(k)), int(f.hi[k]-f.lo[k])
	first, final := even.At(f.lo[k]), even.At(f.hi[k]-1)
	i := e.find(guess, n, first-(end-f.span.Width), end-final)
	if i == len(e.shapes) {
		sh := newShape(n, first-(end-f.span.Width), end-final, final-first, seconds)
		e.shapes = append(e.shapes, sh)
	}
	return i
}

// find returns the index of the shape of n samples with the given lead and trail
// (ms), or the number of shapes if it is not among the last ones. guess is tried
// first.
func (e *extrapolation) find(guess, n int, lead, trail int64) int {
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

// extrapolated fills out with the difference between the first and the last
// sample of each step's window, extrapolated to the window's ends. It is
// Prometheus's extrapolatedRate for floats, operation by operation. resets are
// the samples that are less than the one before; a gauge has none. It returns the
// number of steps with a value.
//
//	increase = (v[last] - v[first] + sum of v[r-1] over resets r) *
//	           (covered + to start + to end) / covered
func (s *Evaluator) extrapolated(kind difference, resets []int32) (points int) {
	fr, in, split, out := s.fr, &s.in, s.split, s.out
	e := fr.extrapolation(kind)
	copy(out.Present, e.pairs)
	vals, his := out.Values[:len(fr.hi)], fr.hi
	for k, r := fr.from, 0; k < fr.to; { // resets[r:] come after the window's first sample
		plain := fr.to
		if r < len(resets) {
			plain = k + sort.Search(fr.to-k, func(n int) bool { return his[k+n] > resets[r] })
		}
		mid := min(max(split, k), plain)
		e.packedDifferences(fr, &in.Packed, kind, vals, k, mid)
		e.differences(fr, in.Values, kind, vals, mid, plain)
		for k = plain; k < fr.to; k++ {
			lo, hi := fr.lo[k], his[k]
			for r < len(resets) && resets[r] <= lo {
				r++
			}
			if r == len(resets) || resets[r] >= hi {
				break
			}
			first := in.At(lo)
			increase := in.At(hi-1) - first
			for q := r; q < len(resets) && resets[q] < hi; q++ {
				increase += in.At(resets[q] - 1)
			}
			vals[k] = float64(increase * e.factorOf(k, first, increase))
		}
	}
	return e.points
}

// differences fills out with what extrapolated does for steps from to to, the end
// excluded, in whose windows there is no reset.
func (e *extrapolation) differences(fr *frame, vs []float64, kind difference, out []float64, from, to int) {
	for k := from; k < to; {
		k += floatIncreases(out[k:to], vs, fr.lo[k:to], fr.hi[k:to], e.factor[k:to], e.near[k:to], kind.least())
		for end := min(k+exact.Lanes, to); k < end; k++ {
			if lo, hi := fr.lo[k], fr.hi[k]; hi-lo >= 2 {
				out[k] = e.difference(kind, k, vs[lo], vs[hi-1])
			}
		}
	}
}

// packedDifferences is differences for packed samples.
func (e *extrapolation) packedDifferences(fr *frame, p *column.Packed, kind difference, out []float64, from, to int) {
	for k := from; k < to; {
		k += packedIncreases(out[k:to], p, fr.lo[k:to], fr.hi[k:to], e.factor[k:to], e.near[k:to], kind.least())
		for end := min(k+exact.Lanes, to); k < end; k++ {
			if lo, hi := fr.lo[k], fr.hi[k]; hi-lo >= 2 {
				out[k] = e.difference(kind, k, p.Value(lo), p.Value(hi-1))
			}
		}
	}
}

// difference is the value of step k, between whose first and last sample there is no
// reset.
func (e *extrapolation) difference(kind difference, k int, first, last float64) float64 {
	increase := last - first
	if kind == gaugeDelta {
		return float64(increase * e.factor[k])
	}
	return float64(increase * e.factorOf(k, first, increase))
}

// factorOf is the factor of step k for a counter. That is never negative, so it is
// not extrapolated below zero: not further than the way to there,
//
//	covered * (first / increase) < to start
//
// Whether that may be so is asked without dividing, with some slack for what is
// rounded on either side.
func (e *extrapolation) factorOf(k int, first, increase float64) float64 {
	if first <= float64(increase*e.near[k])+tiny && increase > 0 && first >= 0 {
		sh := e.shapeAt(k)
		if toZero := float64(sh.covered * (first / increase)); toZero < sh.toStart {
			return sh.extrapolate(toZero)
		}
	}
	return e.factor[k]
}

// The slack is relative, but for products that are not normal numbers.
const slack, tiny = 1e-12, 1e-290

// least is how much beyond its increase times near a counter is not extrapolated below zero; a gauge
// always is.
func (kind difference) least() float64 {
	if kind == gaugeDelta {
		return math.Inf(-1)
	}
	return tiny
}

// What follows is for series whose samples come late, each by something else: hardly any window
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
