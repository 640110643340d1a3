package frame

import (
	"math"
	"slices"
	"time"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// shape is what the extrapolation of a window depends on besides its values.
type shape struct {
	seconds float64
	covered float64 // seconds from the first sample to the last
	toStart float64 // seconds to extrapolate before the first sample
	toEnd   float64 // and after the last
}

// newShape makes the shape of a window of n samples that cover covered ms: the first comes lead ms
// after its start, the last trail ms before its end. seconds divides the result; 0 stands for none.
func newShape(n int, lead, trail, covered int64, seconds float64) shape {
	sh := shape{seconds: seconds, covered: float64(covered) / 1000}
	spacing := sh.covered / float64(n-1)
	threshold := float64(spacing * 1.1)
	if sh.toStart = float64(lead) / 1000; sh.toStart >= threshold {
		sh.toStart = spacing / 2
	}
	if sh.toEnd = float64(trail) / 1000; sh.toEnd >= threshold {
		sh.toEnd = spacing / 2
	}
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

// Extent says when a window starts and ends, when its first and last sample are (ms), and how many
// it has.
type Extent struct {
	Start, First, Last, End int64
	Samples                 int
}

// Factor is what the increase between the first and the last sample is extrapolated by; of a counter, which
// is first at first, not below zero. seconds divides it; 0 stands for none.
func (x *Extent) Factor(counter bool, seconds, first, increase float64) float64 {
	sh := newShape(x.Samples, x.First-x.Start, x.End-x.Last, x.Last-x.First, seconds)
	toStart := sh.toStart
	if counter && increase > 0 && first >= 0 {
		toStart = math.Min(toStart, float64(sh.covered*(first/increase)))
	}
	return sh.extrapolate(toStart)
}

// near is how many times its increase a counter must be beyond at the window's start for the
// way to zero not to matter: see FactorOf.
func (sh *shape) near() float64 { return sh.toStart / sh.covered * (1 + slack) }

// Extrapolation is what the windows of a frame are extrapolated by.
type Extrapolation struct {
	Factor  []float64 // of each step; of last pairs the seconds to divide by
	Near    []float64 // of each step, see FactorOf
	Pairs   []uint64  // bitmap of the steps with two samples or more
	Points  int       // number of them
	of      *Frame
	seconds float64 // that divide factors, 0 for none
}

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

// reset makes room for the windows of f, and finds those with two samples or more.
func (e *Extrapolation) reset(f *Frame) {
	steps := len(f.Lo)
	e.of = f
	e.Factor = slices.Grow(e.Factor[:0], steps)[:steps]
	e.Near = slices.Grow(e.Near[:0], steps)[:steps]
	e.Pairs = slices.Grow(e.Pairs[:0], len(f.Any))[:len(f.Any)]
	clear(e.Pairs)
	e.Points = f.mark(e.Pairs, 2)
}

// SecondsOf converts ms to seconds, rounded as Prometheus's engine does.
func SecondsOf(ms int64) float64 { return (time.Duration(ms) * time.Millisecond).Seconds() }

// FactorOf is the factor of step k for a counter. That is never negative, so it is
// not extrapolated below zero: not further than the way to there,
//
//	covered * (first / increase) < to start
//
// Whether that may be so is asked without dividing, with some slack for what is
// rounded on either side.
func (e *Extrapolation) FactorOf(k int, first, increase float64) float64 {
	if first <= float64(increase*e.Near[k])+Tiny {
		return e.factorNearZero(k, first, increase)
	}
	return e.Factor[k]
}

func (e *Extrapolation) factorNearZero(k int, first, increase float64) float64 {
	if increase > 0 && first >= 0 {
		sh := e.shapeAt(k)
		if toZero := float64(sh.covered * (first / increase)); toZero < sh.toStart {
			return sh.extrapolate(toZero)
		}
	}
	return e.Factor[k]
}

// slack is relative. Tiny is the slack of products that are not normal numbers.
const slack, Tiny = 1e-12, 1e-290

// make makes e. At even distances that divide those of the steps, the first of windows that are alike
// stands for all of them.
func (e *Extrapolation) make(f *Frame, seconds float64) {
	e.seconds = seconds
	even, interval := f.Span.useful(f.runs).Even, f.Span.Grid.Interval
	if f.runs.Late != nil || len(even) == 0 || interval%even[0].Every != 0 {
		e.makeEach(f, seconds)
		return
	}
	for k, same := f.From, 1; k < f.To; k += same {
		if same = f.alike(k, &even, interval); f.Hi[k]-f.Lo[k] < 2 {
			continue
		}
		sh := e.shapeAt(k)
		dense.Fill(e.Factor[k:k+same], sh.extrapolate(sh.toStart))
		dense.Fill(e.Near[k:k+same], sh.near())
	}
}

// makeEach makes e for windows that are not alike, several at once. First how long the first and the
// last sample come after the window's ends takes the place of near and factor.
func (e *Extrapolation) makeEach(f *Frame, seconds float64) {
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
		k += extrapolations(factors[k:], nears[k:], lo[k:], hi[k:], width, seconds)
		for stop := min(k+exact.Lanes, len(lo)); k < stop; k++ {
			if n := int(hi[k] - lo[k]); n >= 2 {
				lead, trail := int64(nears[k]), -int64(factors[k])
				sh := newShape(n, lead, trail, width-lead-trail, seconds)
				factors[k], nears[k] = sh.extrapolate(sh.toStart), sh.near()
			}
		}
	}
}

// makeLast makes e for the last two samples of each window.
func (e *Extrapolation) makeLast(f *Frame, apart bool) {
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
func (e *Extrapolation) shapeAt(k int) shape {
	f := e.of
	end := f.Span.Scan.Times(f.Span.Grid.At(k))
	first, final := f.At(int(f.Lo[k])), f.At(int(f.Hi[k])-1)
	return newShape(int(f.Hi[k]-f.Lo[k]), first-(end-f.Span.Width), end-final, final-first, e.seconds)
}
