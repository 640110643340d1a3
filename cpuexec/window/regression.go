package window

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "deriv", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return w.line(false) },
		Fast:       func(s *Evaluator) (int, bool) { return s.slideRegressions(false) },
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Slope"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "predict_linear", Param: plan.ParamAfter, Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return w.line(true) },
		Fast:       func(s *Evaluator) (int, bool) { return s.slideRegressions(true) },
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Prediction"},
	})
)

// line is the slope of the least-squares line through the samples, or with predict its
// value Param seconds after the step.
func (w *Window) line(predict bool) (float64, bool) {
	if len(w.Values) < 2 {
		return 0, false
	}
	if !predict {
		slope, _ := exact.Line(w.Times, w.Values, w.Times[0])
		return slope, true
	}
	slope, intercept := exact.Line(w.Times, w.Values, w.Step())
	return float64(slope*w.Param) + intercept, true
}

// slideRegressions slides where that is worth it.
func (s *Evaluator) slideRegressions(predict bool) (points int, ok bool) {
	if !s.slide(s.in.Values, regressionCost) {
		return 0, false
	}
	l := line{predict: predict, seconds: s.call.Param, each: s.call.Varying[0], grid: s.fr.span.Grid}
	return slidingRegressions(s.fr.list(), s.in.Values, &s.bounds, &s.fixed, l, s.out), true
}

// slidingRegressions fills out with the slope of the least-squares line through
// each window's samples, per second, or, with predict, with its value that many
// seconds after the step. It returns the number of steps with a value, those
// whose window has two samples or more.
//
// With times T in ms since the first sample, and values Y in units, both
// integers, the sums of T, T², Y and T·Y of a window are exact, and so are
//
//	covariance = n·ΣTY - ΣT·ΣY and variance = n·ΣT² - (ΣT)²
//
// which do not depend on where T starts. The slope is their ratio.
//
// Windows where Prometheus's own answer may be further from that than an answer
// may be from Prometheus's are computed as Prometheus does: see fit.value.
func slidingRegressions(ts []int64, vs []float64, b *bounds, f *exact.Fixed, l line, out dense.Row) (points int) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	var times int64
	var squares, sum, products exact.Int192
	next, odd := b.first(), oddities{vs: vs, at: f.Odd}
	first := next
	base := ts[first]
	changed := int32(0) // the last sample that differs from the one before
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
		l.at(k)
		for ; next < hi; next++ {
			t, x := ts[next]-base, f.Units[next]
			times += t
			squares, sum, products = squares.Add(exact.Product(t, t)), sum.Plus(x), products.Add(exact.Product(t, x))
			if next > 0 && vs[next] != vs[next-1] {
				changed = next
			}
		}
		for ; first < lo; first++ {
			t, x := ts[first]-base, f.Units[first]
			times -= t
			squares, sum, products = squares.Sub(exact.Product(t, t)), sum.Plus(-x), products.Sub(exact.Product(t, x))
		}
		if hi-lo < 2 {
			continue
		}
		points++
		any, nan := odd.in(lo, hi)
		if nan {
			cur.Set(k, math.NaN())
			continue
		}
		origin := l.origin(ts[lo], k)
		if !any {
			if changed <= lo {
				cur.Set(k, l.value(0, vs[lo]))
				continue
			}
			n := int(hi - lo)
			fit := fit{
				n:          float64(n),
				covariance: products.Times(n).Sub(sum.Mul(exact.Int192{}.Plus(times))).Float(),
				variance:   squares.Times(n).Sub(exact.Product(times, times)).Float(),
				sum:        sum.Float(),
				center:     float64(times-int64(n)*(origin-base)) / float64(n),
				start:      float64(ts[lo] - origin),
				end:        float64(ts[hi-1] - origin),
			}
			v, ok := fit.value(&l, f)
			if !ok {
				v = l.value(exact.FiniteLine(ts[lo:hi], vs[lo:hi], origin))
			}
			cur.Set(k, v)
			continue
		}
		cur.Set(k, l.value(exact.Line(ts[lo:hi], vs[lo:hi], origin)))
	}
	return points
}

// line says what is asked of a least-squares line.
type line struct {
	predict bool // its value at a time, rather than its slope
	seconds float64
	each    []float64 // seconds by step, where they vary
	grid    plan.Grid
}

// at sets how far to predict at step k.
func (l *line) at(k int) {
	if l.each != nil {
		l.seconds = l.each[k]
	}
}

// origin is the time that Prometheus's x counts from, in ms, for a window of
// step k that starts with a sample at first.
func (l *line) origin(first int64, k int) int64 {
	if l.predict {
		return l.grid.At(k)
	}
	return first
}

// value is what is asked of the line with the slope, per second, and the value
// at the origin.
func (l *line) value(slope, intercept float64) float64 {
	if l.predict {
		return float64(slope*l.seconds) + intercept
	}
	return slope
}

// fit is a least-squares line: n samples, their covariance and the variance of
// their times, both times n², in ms and units of an exact.Fixed, and the sum of their
// values. start, end and center are the times of the first and the last sample
// and the mean time, from the origin in ms.
type fit struct {
	n, covariance, variance, sum, center, start, end float64
}

// value returns what l asks of the line. It reports false where
// Prometheus's answer may be too far from it.
//
// Prometheus sums x, y, x·y and x², x being the time since the origin in
// seconds. With u = 2^-53, each x and each product is rounded by up to u, each
// sum and each operation on sums again. So its covariance Σxy - Σx·Σy/n is off by
//
//	u·(6·|center|·Σ|y| + X·Σ|y-mean| + 3·|covariance|)
//
// X being the largest |x|, and X taking the place of the center where x changes
// its sign, and its variance Σx² - (Σx)²/n by 10·u·n·X².
func (p *fit) value(l *line, f *exact.Fixed) (float64, bool) {
	covariance, variance := p.covariance/p.n, p.variance/p.n
	slope := covariance / variance // units per ms
	reach := max(math.Abs(p.start), math.Abs(p.end))
	center := math.Abs(p.center)
	if p.start*p.end < 0 {
		center = reach
	}
	magnitudes := math.Abs(p.sum)
	if f.Low < 0 {
		magnitudes = p.n * f.Max
	}
	spread := min(2*magnitudes, p.n*(f.High-f.Low)/2)
	off := exact.Rounding * (6*center*magnitudes + reach*spread + 3*math.Abs(covariance))
	if !f.Exact {
		off += math.Sqrt(p.n * variance)
	}
	slopeOff := off/variance + math.Abs(slope)*exact.Rounding*(10*p.n*reach*reach/variance+4)
	if !l.predict {
		return slope * 1000 * f.Unit, slopeOff <= exact.Tolerance*math.Abs(slope)
	}
	mean, ahead := p.sum/p.n, l.seconds*1000
	value := mean + slope*(ahead-p.center)
	off = slopeOff*math.Abs(ahead-p.center) +
		exact.Rounding*(6*math.Abs(mean)+6*math.Abs(slope)*(center+math.Abs(ahead)+math.Abs(ahead-p.center)))
	if !f.Exact {
		off++
	}
	finite := math.Abs(value) <= math.MaxFloat64
	return value * f.Unit, finite && off <= exact.Tolerance*math.Abs(value)
}
