package window

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "deriv", Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return w.line(false) },
		Fast:       func(s *Evaluator) (int, bool) { return s.slideRegressions(false) },
		Abreast:    func(s *Evaluator) (int, bool) { return s.allLines(false), true },
		Reads:      Integers,
		Slides:     regressionCost,
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Slope", Recent: true},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "predict_linear", Param: plan.ParamAfter, Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return w.line(true) },
		Fast:       func(s *Evaluator) (int, bool) { return s.slideRegressions(true) },
		Abreast:    func(s *Evaluator) (int, bool) { return s.allLines(true), true },
		Reads:      Integers,
		Slides:     regressionCost,
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Prediction", Recent: true},
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
	offsets, ok := s.slideOffsets(regressionCost, max(s.fr.Span.Width, 1))
	if !ok || s.fr.At(int(s.bounds.End())-1)-s.fr.At(int(s.bounds.First())) > 1<<42 { // products of sums may overflow
		return s.allLines(predict), true
	}
	return s.slidingRegressions(s.fr.List(), s.fr.Trends(predict), offsets, s.line(predict)), true
}

// allLines computes the lines of all windows by Prometheus's operations.
func (s *Evaluator) allLines(predict bool) (points int) {
	if s.bounds.Most == 0 {
		return 0
	}
	s.values() // which magnitudes are of
	l, of := s.line(predict), s.in.Magnitudes()
	s.lines.Set(s.fr, predict)
	strides, times := s.lines.Strides, s.lines.Times
	if len(strides) > 0 {
		s.in.Prefetch(s.in.Times.Len())
	}
	for i := range strides {
		points += s.strided(strides[i:i+1], func(st *frame.Stride, out []float64) {
			s.seconds = slices.Grow(s.seconds[:0], len(out))[:len(out)]
			s.rows.Lines(&times[i], of, out, s.seconds)
			for i, slope := range out {
				if slope-slope == 0 && !predict {
					continue
				}
				k, intercept := st.Step(i), s.seconds[i]
				if slope-slope != 0 || intercept-intercept != 0 {
					slope, intercept = s.lines.InOrder(k, s.in.Values[s.bounds.Lo[k]:s.bounds.Hi[k]])
				}
				l.at(k)
				out[i] = l.value(slope, intercept)
			}
		})
	}
	return points + s.alone(l, of, s.lines.Rest)
}

// line is what is called.
func (s *Evaluator) line(predict bool) line {
	return line{predict: predict, seconds: s.call.Param, each: s.call.Varying[0], grid: s.fr.Span.Grid}
}

// alone fills out with what is asked of the lines through the samples of windows one by one, of the given
// steps or of all. It returns how many have one. Values are of those magnitudes.
func (s *Evaluator) alone(l line, of exact.Magnitudes, steps []int32) (points int) {
	vs, cur, units := s.values(), dense.Cursor{Row: s.out}, s.lines.Units(of)
	s.bounds.Chosen(steps, func(k int, lo, hi int32) {
		if hi-lo < 2 {
			return
		}
		l.at(k)
		slope, intercept, ok := s.lines.Window(k).Line(vs[lo:hi], of, &units)
		if !ok {
			slope, intercept = s.lines.InOrder(k, vs[lo:hi])
		}
		cur.Set(k, l.value(slope, intercept))
		points++
	})
	cur.Flush()
	return points
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
// which do not depend on where T starts, nor the covariance on where Y does. The slope is their
// ratio.
//
// Windows where Prometheus's own answer may be further from that than an answer
// may be from Prometheus's are computed as Prometheus does: see fit.value.
func (s *Evaluator) slidingRegressions(ts []int64, trends []frame.Trend, offsets []uint32, l line) (points int) {
	b, f := &s.bounds, &s.fixed
	cur := dense.Cursor{Row: s.out}
	next, odd := b.First(), oddities{vs: s.in.Values, at: f.Odd}
	first := next
	base := ts[first]
	s.merged = s.merged[:0] // steps to compute anew
	if offsets != nil {
		s.addProducts(offsets, ts, int(first), int(b.End()))
	}
	var sum, products exact.Int192
	equal, scale := equals{}, f.NarrowScale()
	whole := !l.predict && f.Whole(b.Most, float64(s.fr.Span.Width)/1000)
	least, unit := f.WholeOffsets()
	for k := range b.Lo {
		if b.GiveUp(k) {
			break
		}
		lo, hi := b.Lo[k], b.Hi[k]
		l.at(k)
		if offsets == nil {
			for ; next < hi; next++ {
				x := f.Units[next]
				sum, products = sum.Plus(x), products.Add(exact.Product(ts[next]-base, x))
			}
			for ; first < lo; first++ {
				x := f.Units[first]
				sum, products = sum.Plus(-x), products.Sub(exact.Product(ts[first]-base, x))
			}
		}
		if hi-lo < 2 {
			continue
		}
		points++
		if any, nan := odd.in(lo, hi); nan {
			cur.Set(k, math.NaN())
			continue
		} else if any {
			s.merged = append(s.merged, int32(k))
			continue
		}
		n, t, from := int(hi-lo), &trends[k], ts[lo]-base
		fit := fit{Trend: t, n: float64(n)}
		if offsets != nil {
			x, product := s.upTo[hi]-s.upTo[lo], int64(s.squares[hi]-s.squares[lo])
			fit.sum = f.NarrowSum(uint64(x), n)
			fit.covariance = float64(int64(n)*product-t.Times*x) * scale
			if whole && t.Deviations != 0 && fit.covariance != 0 {
				product = unit*(product-from*x) + least*(t.Times-from*int64(n))
				cur.Set(k, fit.wholeSlope(product, fit.sum*f.Unit))
				continue
			}
		} else {
			fit.sum = sum.Float()
			fit.covariance = products.Times(n).Sub(sum.Mul(exact.Int192{}.Plus(t.Times))).Float()
			if whole && t.Deviations != 0 && fit.covariance != 0 {
				product := products.Sub(sum.Mul(exact.Int192{}.Plus(from))).Shifted(-math.Ilogb(f.Unit))
				cur.Set(k, fit.wholeSlope(product, fit.sum*f.Unit))
				continue
			}
		}
		if fit.covariance == 0 && equal.in(s.values(), lo, hi) {
			cur.Set(k, l.value(0, s.in.Values[lo]))
			continue
		}
		v, ok := fit.value(&l, f)
		if !ok {
			s.merged = append(s.merged, int32(k))
			continue
		}
		cur.Set(k, v)
	}
	cur.Flush()
	if len(s.merged) > 0 {
		s.lines.Few(s.fr, l.predict)
		s.values() // which magnitudes are of
		s.alone(l, s.in.Magnitudes(), s.merged)
	}
	return points
}

// addProducts adds up the offsets of samples from to to, and their products with the times since
// the first, or with themselves where there are no times, before each.
func (s *Evaluator) addProducts(offsets []uint32, ts []int64, from, to int) {
	s.upTo, s.squares = slices.Grow(s.upTo[:0], to+1)[:to+1], slices.Grow(s.squares[:0], to+1)[:to+1]
	upTo, products := s.upTo[from:], s.squares[from:to+1]
	sum, product := int64(0), uint64(0)
	for i, u := range offsets[from:to] {
		upTo[i], products[i] = sum, product
		other := uint64(u)
		if ts != nil {
			other = uint64(ts[from+i] - ts[from])
		}
		sum, product = sum+int64(u), product+uint64(u)*other
	}
	upTo[to-from], products[to-from] = sum, product
}

// equals knows a run of equal values, of samples from to to.
type equals struct{ from, to int32 }

// in reports whether the values lo to hi of vs are equal. Windows are asked for in order.
func (e *equals) in(vs []float64, lo, hi int32) bool {
	if lo < e.from || lo >= e.to {
		e.from, e.to = lo, lo+1
	}
	for e.to < hi && vs[e.to] == vs[e.from] {
		e.to++
	}
	return e.to >= hi
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

// value is what is asked of the line with the slope, per second, and the value
// at the origin.
func (l *line) value(slope, intercept float64) float64 {
	if l.predict {
		return float64(slope*l.seconds) + intercept
	}
	return slope
}

// fit is a least-squares line through n samples, their covariance, times n², in ms and units of
// an exact.Fixed, and the sum of their values.
type fit struct {
	*frame.Trend
	n, covariance, sum float64
}

// wholeSlope is the slope where Prometheus's sums of values, of seconds and of the products of
// both are integers, and so are not rounded: the same operations on these. product is the sum of
// products with ms since the first sample.
func (p *fit) wholeSlope(product int64, sum float64) float64 {
	return (float64(product/1000) - float64(p.Seconds*sum)/p.n) / p.Deviations
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
	covariance := p.covariance / p.n
	slope := covariance / p.Variance // units per ms
	magnitudes := math.Abs(p.sum)
	if f.Low < 0 {
		magnitudes = p.n * f.Max
	}
	spread := min(2*magnitudes, p.n*(f.High-f.Low)/2)
	off := float64(exact.Rounding *
		(float64(6*p.Far*magnitudes) + float64(p.Reach*spread) + float64(3*math.Abs(covariance))))
	if !f.Exact {
		off += math.Sqrt(p.n * p.Variance)
	}
	slopeOff := float64(off*p.Inverse) + float64(math.Abs(slope)*p.Steepness)
	if !l.predict {
		return slope * 1000 * f.Unit, slopeOff <= exact.Tolerance*math.Abs(slope)
	}
	mean, ahead := p.sum/p.n, float64(l.seconds*1000)
	value := mean + float64(slope*(ahead-p.Center))
	steep := float64(6 * math.Abs(slope) * (p.Far + math.Abs(ahead) + math.Abs(ahead-p.Center)))
	off = float64(slopeOff*math.Abs(ahead-p.Center)) +
		float64(exact.Rounding*(float64(6*math.Abs(mean))+steep))
	if !f.Exact {
		off++
	}
	finite := math.Abs(value) <= math.MaxFloat64
	return value * f.Unit, finite && off <= exact.Tolerance*math.Abs(value)
}
