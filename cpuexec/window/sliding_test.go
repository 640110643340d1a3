package window

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/plan"
)

// kinds are values of a series, drawn one by one; k is the sample's index.
var kinds = map[string]func(t *rapid.T, k int) float64{
	"integers":      func(t *rapid.T, k int) float64 { return float64(rapid.Int64Range(-50, 50).Draw(t, "v")) },
	"pages":         func(t *rapid.T, k int) float64 { return 4096 * float64(rapid.Int64Range(1e6, 2e6).Draw(t, "v")) },
	"near 2^53":     func(t *rapid.T, k int) float64 { return 1<<53 - float64(rapid.Int64Range(-9, 9).Draw(t, "v")) },
	"shares":        func(t *rapid.T, k int) float64 { return rapid.Float64Range(0, 1).Draw(t, "v") },
	"tenths":        func(t *rapid.T, k int) float64 { return float64(rapid.Int64Range(-1000, 1000).Draw(t, "v")) / 10 },
	"trend":         func(t *rapid.T, k int) float64 { return 3.7*float64(k) + rapid.Float64Range(0, 5).Draw(t, "v") },
	"nearly flat":   func(t *rapid.T, k int) float64 { return 1e9 + rapid.Float64Range(0, 1e-3).Draw(t, "v") },
	"constant":      func(t *rapid.T, k int) float64 { return 0.1 },
	"zero":          func(t *rapid.T, k int) float64 { return 0 },
	"negative zero": func(t *rapid.T, k int) float64 { return math.Copysign(0, -1) },
	"cancelling": func(t *rapid.T, k int) float64 {
		return []float64{1e15, -1e15, 0.1, -0.3, 1}[rapid.IntRange(0, 4).Draw(t, "v")] * float64(1-k%2*2)
	},
	"magnitudes": func(t *rapid.T, k int) float64 {
		return math.Ldexp(rapid.Float64Range(-1, 1).Draw(t, "v"), rapid.IntRange(-40, 40).Draw(t, "exponent"))
	},
	"any": func(t *rapid.T, k int) float64 { return rapid.Float64().Draw(t, "v") },
	"odd": func(t *rapid.T, k int) float64 {
		if rapid.IntRange(0, 9).Draw(t, "often") > 0 {
			return float64(rapid.IntRange(-9, 9).Draw(t, "v"))
		}
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, 1e-310, math.Copysign(0, -1), 0, 1e200, -1e300}[rapid.IntRange(0, 9).Draw(t, "v")]
	},
	"mostly none": func(t *rapid.T, k int) float64 {
		if rapid.IntRange(0, 3).Draw(t, "often") > 0 {
			return math.Copysign(math.NaN(), float64(rapid.IntRange(0, 1).Draw(t, "sign"))-0.5)
		}
		return float64(rapid.IntRange(-2, 2).Draw(t, "v")) / 2
	},
	"squares overflow": func(t *rapid.T, k int) float64 { return rapid.Float64Range(-1e200, 1e200).Draw(t, "v") },
	"denormal":         func(t *rapid.T, k int) float64 { return 5e-324 * float64(rapid.IntRange(-9, 9).Draw(t, "v")) },
}

// windowed is a series and its windows, which only ever move forward.
type windowed struct {
	ts []int64
	vs []float64
	b  frame.Bounds
	g  plan.Grid
}

func drawWindowed(t *rapid.T, kind func(*rapid.T, int) float64) windowed {
	var w windowed
	n := rapid.IntRange(1, 300).Draw(t, "samples")
	at := rapid.Int64Range(-1e12, 2e12).Draw(t, "start")
	aligned := rapid.Bool().Draw(t, "aligned")
	for k := range n {
		if at += 15_000; !aligned {
			at += rapid.Int64Range(-14_000, 14_000).Draw(t, "jitter")
		}
		w.ts, w.vs = append(w.ts, at), append(w.vs, kind(t, k))
	}
	lo, hi := 0, 0
	width := rapid.IntRange(0, n).Draw(t, "width")
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		hi = rapid.IntRange(hi, min(n, max(hi, lo+width)+10)).Draw(t, "hi")
		lo = rapid.IntRange(max(lo, min(hi, hi-width)), hi).Draw(t, "lo")
		w.b.Lo, w.b.Hi = append(w.b.Lo, int32(lo)), append(w.b.Hi, int32(hi))
	}
	w.g = plan.NewGrid(at-rapid.Int64Range(0, 4_000_000).Draw(t, "before"), math.MaxInt64/2, rapid.Int64Range(1, 100_000).Draw(t, "interval"))
	w.g.Steps = len(w.b.Lo)
	w.b.To = w.g.Steps
	w.b.Count(make([]uint64, w.g.Steps/64+1))
	return w
}

func (w *windowed) row() dense.Row {
	return dense.New(len(w.b.Lo))
}

// evaluator returns an evaluator of the series.
func (w *windowed) evaluator() *Evaluator {
	span := frame.Span{Grid: w.g, Scan: &plan.Scan{}, Width: w.ts[len(w.ts)-1] - w.ts[0] + 1}
	in := column.NewSamples(w.ts, w.vs)
	fr := (&frame.Frames{Span: span}).Over(in.Times, &frame.Frame{})
	fr.Bounds = w.b
	return &Evaluator{bounds: w.b, series: series{fr: fr, in: in, out: w.row()}}
}

// plain fills out with the plain form of a function and returns the number of its values.
func (w *windowed) plain(name string, param float64, out dense.Row) (points int) {
	for k, lo := range w.b.Lo {
		x := Window{Times: w.ts[lo:w.b.Hi[k]], Values: w.vs[lo:w.b.Hi[k]], Param: param, span: &frame.Span{Grid: w.g, Scan: &plan.Scan{}}, step: k}
		if len(x.Times) == 0 {
			continue
		}
		if v, ok := Of(Named(name)).Plain(&x); ok {
			out.Set(k, v)
			points++
		}
	}
	return points
}

// requireAlike compares two rows, bit by bit where tolerance is 0.
func (w *windowed) requireAlike(t *rapid.T, want, got dense.Row, tolerance float64, what string) {
	require.Equal(t, want.Present, got.Present, what)
	for k, x := range want.Values {
		if !want.Has(k, 1) {
			continue
		}
		y := got.Values[k]
		same := math.Float64bits(x) == math.Float64bits(y) || (x != x && y != y)
		near := math.Abs(x-y) <= tolerance*math.Abs(x)
		require.True(t, same || near, "%s of window %d, %v: want %v, got %v (off by %g)", what, k, w.vs[w.b.Lo[k]:w.b.Hi[k]], x, y, (x-y)/x)
	}
}

// eachKind checks a property of every kind of series.
func eachKind(t *testing.T, check func(*rapid.T, windowed)) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				if w := drawWindowed(t, kind); w.b.Overlap(0) {
					check(t, w)
				}
			})
		})
	}
}

// TestRunningSums: sums that are differences of running ones, and means of them, have the bits of the
// plain forms.
func TestRunningSums(t *testing.T) {
	least := 20
	if testing.Short() {
		least = 4 // of a fifth of the draws
	}
	for mean, name := range map[bool]string{false: "sum_over_time", true: "avg_over_time"} {
		compared := 0
		eachKind(t, func(t *rapid.T, w windowed) {
			want := w.row()
			w.plain(name, 0, want)
			e := w.evaluator()
			e.fr.Any, e.fr.Bounds = want.Present, w.b
			if e.runningSums(mean) {
				w.requireAlike(t, want, e.out, 0, name)
				compared++
			}
		})
		require.Greater(t, compared, least, name)
	}
}

// TestExtremes: the largest and the smallest value of each window are those that the plain form has.
func TestExtremes(t *testing.T) {
	eachKind(t, func(t *rapid.T, w windowed) {
		for name, sign := range map[string]float64{"max_over_time": 1, "min_over_time": -1} {
			want := w.row()
			w.plain(name, 0, want)
			e := w.evaluator()
			e.fr.Any = want.Present
			e.extremes(sign)
			w.requireAlike(t, want, e.out, 0, name)
		}
	})
}

func TestSlidingSums(t *testing.T) {
	eachKind(t, func(t *rapid.T, w windowed) {
		var f exact.Fixed
		if !f.Set(w.vs, int(w.b.First()), int(w.b.End())) {
			return
		}
		for _, mean := range []bool{false, true} {
			want, got := w.row(), w.row()
			name := "sum_over_time"
			if mean {
				name = "avg_over_time"
			}
			w.plain(name, 0, want)
			slidingSums(w.vs, &w.b, mean, &f, got)
			tolerance := 0.0
			if mean && !f.Small(len(w.vs)) {
				tolerance = 1e-12
			}
			w.requireAlike(t, want, got, tolerance, fmt.Sprintf("sum (mean: %v)", mean))
		}
	})
}

func TestSlidingVariances(t *testing.T) {
	eachKind(t, func(t *rapid.T, w windowed) {
		var f exact.Fixed
		if !f.Set(w.vs, int(w.b.First()), int(w.b.End())) {
			return
		}
		for _, root := range []bool{false, true} {
			want, got := w.row(), w.row()
			w.plain(map[bool]string{false: "stdvar_over_time", true: "stddev_over_time"}[root], 0, want)
			e := w.evaluator()
			offsets, ok := e.slideOffsets(0, 0)
			require.True(t, ok)
			copy(got.Present, want.Present)
			e.slidingVariances(offsets, root, got)
			w.requireAlike(t, want, got, 1e-12, fmt.Sprintf("variance (root: %v)", root))
			clear(got.Values)
			e.slidingVariances(nil, root, got)
			w.requireAlike(t, want, got, 1e-12, fmt.Sprintf("variance (root: %v)", root))
		}
	})
}

func TestSlidingRegressions(t *testing.T) {
	eachKind(t, func(t *rapid.T, w windowed) {
		e := w.evaluator()
		offsets, ok := e.slideOffsets(0, max(w.ts[len(w.ts)-1]-w.ts[0], 1))
		if !ok {
			return
		}
		seconds := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-1e5, 1e5), rapid.SampledFrom([]float64{0, math.Inf(1), math.NaN()})).Draw(t, "seconds")
		for _, l := range []line{{}, {predict: true, seconds: seconds, grid: w.g}} {
			want := w.row()
			n := w.plain(map[bool]string{false: "deriv", true: "predict_linear"}[l.predict], seconds, want)
			trends := make([]frame.Trend, w.g.Steps)
			var steps *plan.Grid
			if l.predict {
				steps = &w.g
			}
			frame.MakeTrends(trends, w.ts, &w.b, steps)
			for _, offsets := range [][]uint32{offsets, nil} {
				e.out = w.row()
				require.Equal(t, n, e.slidingRegressions(w.ts, trends, offsets, l))
				tolerance := 1e-12
				if !l.predict && aligned(w.ts) && e.fixed.Whole(w.b.Most, float64(e.fr.Span.Width)/1000) {
					tolerance = 0
				}
				w.requireAlike(t, want, e.out, tolerance, fmt.Sprintf("%+v, narrow: %v", l, offsets != nil))
			}
		}
	})
}

// aligned reports whether all times are whole seconds apart.
func aligned(ts []int64) bool {
	for k := range ts[1:] {
		if (ts[k+1]-ts[k])%1000 != 0 {
			return false
		}
	}
	return true
}

func TestSlidingOrder(t *testing.T) {
	eachKind(t, func(t *rapid.T, w windowed) {
		var o exact.Ranks
		if !o.Set(w.vs, int(w.b.First()), int(w.b.End())) {
			return
		}
		var scratch []float64
		q := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 0.5, 1})).Draw(t, "quantile")
		want, got := w.row(), w.row()
		w.plain("quantile_over_time", q, want)
		slidingQuantiles(&w.b, &o, q, got)
		w.requireAlike(t, want, got, 0, fmt.Sprint("quantile ", q))

		require.True(t, o.Set(w.vs, int(w.b.First()), int(w.b.End())))
		want, got = w.row(), w.row()
		w.plain("mad_over_time", 0, want)
		slidingDeviations(w.vs, &w.b, &o, &scratch, got)
		w.requireAlike(t, want, got, 0, "median absolute deviation")
	})
}

// TestSlidingIsTaken makes sure that ordinary series do not end in the loops
// over each window's samples.
func TestSlidingIsTaken(t *testing.T) {
	for _, kind := range []string{"bytes", "shares"} {
		_, vs := gauge(kind, 0)
		var f exact.Fixed
		require.True(t, f.Set(vs, 0, len(vs)))
		var sum, squares exact.Int192
		for _, x := range f.Units {
			sum, squares = sum.Plus(x), squares.Add(exact.Product(x, x))
		}
		numerator := squares.Times(len(vs)).Sub(sum.Mul(sum)).Float()
		_, ok := f.Sum(sum, len(vs))
		require.True(t, ok, kind)
		_, ok = f.Mean(sum, len(vs))
		require.True(t, ok, kind)
		_, ok = f.Variance(sum.Float(), numerator, len(vs), false)
		require.True(t, ok, kind)
	}
}

// TestSlidingIgnoresOtherSamples makes sure that samples outside all windows,
// which depend on how a series is cut into chunks, change no bit.
func TestSlidingIgnoresOtherSamples(t *testing.T) {
	ts, vs := gauge("shares", 700)
	const cut = 1000
	for _, name := range Names() {
		var rows [2]dense.Row
		for i, outside := range []float64{math.NaN(), 1e300} {
			for k := range cut {
				vs[k], vs[len(vs)-1-k] = outside, -outside
			}
			g := plan.NewGrid(ts[cut+480], ts[len(ts)-1-cut], 15_000)
			sp := frame.Span{Grid: g, Scan: &plan.Scan{}, Width: 7_200_000}
			w := &Evaluator{}
			rows[i] = dense.New(g.Steps)
			var c dense.Counts
			require.NoError(t, w.Evaluate(&frame.Frames{Span: sp}, &Call{Func: Of(Named(name)), Parameters: plan.Parameters{Param: 0.5, Trend: 0.5}}, column.NewSamples(ts, vs), rows[i], &c))
			require.False(t, math.IsNaN(rows[i].Values[0]), name)
		}
		require.Equal(t, rows[0], rows[1], name)
	}
}
