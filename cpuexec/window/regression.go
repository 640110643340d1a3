package window

import (
	"math"
	"math/bits"
	"slices"

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
		Reads:      Integers,
		GPU:        abi.Policy{Kernel: abi.ByStatistic, Name: "Slope"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "predict_linear", Param: plan.ParamAfter, Exactness: plan.Compensated},
		Plain:      func(w *Window) (float64, bool) { return w.line(true) },
		Fast:       func(s *Evaluator) (int, bool) { return s.slideRegressions(true) },
		Reads:      Integers,
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
	offsets, ok := s.slideOffsets(regressionCost, max(s.fr.span.Width, 1))
	ts := s.fr.list()
	if !ok || ts[s.bounds.end()-1]-ts[s.bounds.first()] > 1<<42 { // products of sums may overflow
		return 0, false
	}
	l := line{predict: predict, seconds: s.call.Param, each: s.call.Varying[0], grid: s.fr.span.Grid}
	return s.slidingRegressions(ts, s.fr.trends(predict), offsets, l), true
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
func (s *Evaluator) slidingRegressions(ts []int64, trends []trend, offsets []uint32, l line) (points int) {
	b, f := &s.bounds, &s.fixed
	cur := dense.Cursor{Row: s.out}
	defer cur.Flush()
	next, odd := b.first(), oddities{vs: s.in.Values, at: f.Odd}
	first := next
	base := ts[first]
	if offsets != nil {
		s.addProducts(offsets, ts, int(first), int(b.end()))
	}
	var sum, products exact.Int192
	equal, scale := equals{}, f.NarrowScale()
	whole := !l.predict && f.Whole(b.most, float64(s.fr.span.Width)/1000)
	least, unit := f.WholeOffsets()
	for k := range b.lo {
		if b.giveUp(k) {
			break
		}
		lo, hi := b.lo[k], b.hi[k]
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
			cur.Set(k, l.value(exact.Line(ts[lo:hi], s.in.Values[lo:hi], l.origin(ts[lo], k))))
			continue
		}
		n, t, from := int(hi-lo), &trends[k], ts[lo]-base
		fit := fit{trend: t, n: float64(n)}
		if offsets != nil {
			x, product := s.upTo[hi]-s.upTo[lo], int64(s.squares[hi]-s.squares[lo])
			fit.sum = f.NarrowSum(uint64(x), n)
			fit.covariance = float64(int64(n)*product-t.times*x) * scale
			if whole && t.deviations != 0 && fit.covariance != 0 {
				product = unit*(product-from*x) + least*(t.times-from*int64(n))
				cur.Set(k, fit.wholeSlope(product, fit.sum*f.Unit))
				continue
			}
		} else {
			fit.sum = sum.Float()
			fit.covariance = products.Times(n).Sub(sum.Mul(exact.Int192{}.Plus(t.times))).Float()
			if whole && t.deviations != 0 && fit.covariance != 0 {
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
			v = l.value(exact.FiniteLine(ts[lo:hi], s.values()[lo:hi], l.origin(ts[lo], k)))
		}
		cur.Set(k, v)
	}
	return points
}

// addProducts adds up the offsets of samples from to to, and their products with the times since
// the first, before each.
func (s *Evaluator) addProducts(offsets []uint32, ts []int64, from, to int) {
	s.upTo, s.squares = slices.Grow(s.upTo[:0], to+1)[:to+1], slices.Grow(s.squares[:0], to+1)[:to+1]
	upTo, products, times := s.upTo[from:], s.squares[from:to+1], ts[from:to]
	sum, product := int64(0), uint64(0)
	for i, u := range offsets[from:to] {
		upTo[i], products[i] = sum, product
		sum, product = sum+int64(u), product+uint64(u)*uint64(times[i]-times[0])
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

// fit is a least-squares line through n samples, their covariance, times n², in ms and units of
// an exact.Fixed, and the sum of their values.
type fit struct {
	*trend
	n, covariance, sum float64
}

// wholeSlope is the slope where Prometheus's sums of values, of seconds and of the products of
// both are integers, and so are not rounded: the same operations on these. product is the sum of
// products with ms since the first sample.
func (p *fit) wholeSlope(product int64, sum float64) float64 {
	return (float64(product/1000) - float64(p.seconds*sum)/p.n) / p.deviations
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
	slope := covariance / p.variance // units per ms
	magnitudes := math.Abs(p.sum)
	if f.Low < 0 {
		magnitudes = p.n * f.Max
	}
	spread := min(2*magnitudes, p.n*(f.High-f.Low)/2)
	off := float64(exact.Rounding *
		(float64(6*p.far*magnitudes) + float64(p.reach*spread) + float64(3*math.Abs(covariance))))
	if !f.Exact {
		off += math.Sqrt(p.n * p.variance)
	}
	slopeOff := float64(off*p.inverse) + float64(math.Abs(slope)*p.steepness)
	if !l.predict {
		return slope * 1000 * f.Unit, slopeOff <= exact.Tolerance*math.Abs(slope)
	}
	mean, ahead := p.sum/p.n, float64(l.seconds*1000)
	value := mean + float64(slope*(ahead-p.center))
	steep := float64(6 * math.Abs(slope) * (p.far + math.Abs(ahead) + math.Abs(ahead-p.center)))
	off = float64(slopeOff*math.Abs(ahead-p.center)) +
		float64(exact.Rounding*(float64(6*math.Abs(mean))+steep))
	if !f.Exact {
		off++
	}
	finite := math.Abs(value) <= math.MaxFloat64
	return value * f.Unit, finite && off <= exact.Tolerance*math.Abs(value)
}

// trend is what the least-squares line through a window's samples depends on besides their
// values, in ms.
type trend struct {
	times    int64   // sum of the times since the first sample of all windows
	variance float64 // of the times, times the number of samples
	inverse  float64 // of the variance
	center   float64 // mean time since the origin, which slopes count from
	far      float64 // the same as a distance, or, where times lie around the origin, reach
	reach    float64 // the largest distance of a sample from the origin
	// steepness is how far Prometheus's slope may be off, relative, for the times alone.
	steepness float64
	// seconds is the sum of the times since the window's first sample, and deviations that of
	// their squares less the square of the sum over n, as Prometheus computes both; 0 unless all
	// times are whole seconds apart.
	seconds, deviations float64
}

// trends returns f's, by step, with which origin l's slope counts from.
func (f *frame) trends(predict bool) []trend {
	f.lineMade.Do(func() {
		f.line = slices.Grow(f.line[:0], len(f.lo))[:len(f.lo)]
		makeTrends(f.line, f.list(), &f.bounds, f.span.Width, &line{predict: predict, grid: f.span.Grid})
	})
	return f.line
}

// makeTrends makes the trend of each window with two samples or more at ts.
func makeTrends(out []trend, ts []int64, b *bounds, width int64, l *line) {
	var times int64
	var high, low uint64 // sum of the squares, of which a window's fit into 128 bits
	begin := b.first()
	first, next := begin, begin
	base := ts[min(int(first), len(ts)-1)]
	broken := begin // the last sample that is not whole seconds after the one before
	narrow := 2*bits.Len(uint(b.most))+2*bits.Len64(uint64(width)) < 63
	for k, hi := range b.hi {
		lo := b.lo[k]
		if !l.predict { // of the samples that are new the last counts
			for i := hi - 1; i >= next && i > begin; i-- {
				if (ts[i]-ts[i-1])%1000 != 0 {
					broken = i
					break
				}
			}
		}
		if narrow {
			for ; next < hi; next++ {
				t := ts[next] - base
				times, low = times+t, low+uint64(t*t)
			}
			for ; first < lo; first++ {
				t := ts[first] - base
				times, low = times-t, low-uint64(t*t)
			}
		}
		for ; next < hi; next++ {
			t, carry := ts[next]-base, uint64(0)
			h, l := bits.Mul64(uint64(t), uint64(t))
			times += t
			low, carry = bits.Add64(low, l, 0)
			high += h + carry
		}
		for ; first < lo; first++ {
			t, borrow := ts[first]-base, uint64(0)
			h, l := bits.Mul64(uint64(t), uint64(t))
			times -= t
			low, borrow = bits.Sub64(low, l, 0)
			high -= h + borrow
		}
		if hi-lo < 2 {
			continue
		}
		t, n := &out[k], float64(hi-lo)
		origin := l.origin(ts[lo], k)
		start, end := float64(ts[lo]-origin), float64(ts[hi-1]-origin)
		t.times, t.center = times, float64(times-int64(hi-lo)*(origin-base))/n
		if narrow {
			t.variance = float64(int64(uint64(hi-lo)*low)-times*times) / n
		} else {
			t.variance = exact.NumeratorOf(high, low, times, int(hi-lo)) / n
		}
		t.inverse = 1 / t.variance
		if t.reach = math.Abs(start); t.reach < math.Abs(end) {
			t.reach = math.Abs(end)
		}
		if t.far = math.Abs(t.center); start*end < 0 {
			t.far = t.reach
		}
		t.steepness = exact.Rounding * (float64(10*n*t.reach*t.reach*t.inverse) + 4)
		t.deviations = 0
		if since := end - start; !l.predict && broken <= lo && n*since*since <= exact.MaxInteger*1e6 {
			from, samples := ts[lo]-base, int64(hi-lo)
			t.seconds = float64((times - samples*from) / 1000)
			t.deviations = float64(squaresSince(high, low, from, times, samples)) - float64(t.seconds*t.seconds)/n
		}
	}
}

// squaresSince is the sum of the squares of the times of so many samples since from, divided by 1e6.
// Since 0 the times add up to times, and their squares to high and low. It must be less than
// 1e6<<64 before it is divided.
func squaresSince(high, low uint64, from, times, samples int64) uint64 {
	h, l := bits.Mul64(uint64(2*from), uint64(times))
	low, borrow := bits.Sub64(low, l, 0)
	high -= h + borrow
	h, l = bits.Mul64(uint64(from), uint64(from*samples))
	low, carry := bits.Add64(low, l, 0)
	quotient, _ := bits.Div64(high+h+carry, low, 1e6)
	return quotient
}
