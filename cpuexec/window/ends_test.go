package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestEnds: from packed samples and some that come then, functions that take these
// have the bits that they have from plain ones, on every step.
func TestEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var functions []*plan.WindowFunc
	for _, f := range Functions() {
		if f.Reads != Unpacked && f.Fast != nil {
			functions = append(functions, &f.WindowFunc)
		}
	}
	require.Greater(t, len(functions), 8)
	outside := 0 // values in steps that the packed samples end before
	for range 4000 {
		ts, vs := endsData(r)
		sp := frame.Span{
			Grid: plan.Grid{Start: ts[0] + r.Int64N(200_000) - 100_000, Interval: 1 + r.Int64N(120_000), Steps: 1 + r.IntN(300)},
			Scan: &plan.Scan{}, Width: 1 + r.Int64N(600_000),
		}
		if r.IntN(2) == 0 {
			sp.Grid.Interval = 15_000 * (1 + r.Int64N(8))
		}
		if r.IntN(10) == 0 {
			at := ts[len(ts)-1]
			sp.Scan.Fixed = &at
		}
		known := 1 + r.IntN(len(ts))
		if r.IntN(4) == 0 {
			known = len(ts)
		}
		if n := len(vs); known == n && n > 1 && !exact.IsInteger(vs[n-1]) {
			known--
		}
		in := packedSamples(t, 1, ts, vs, known)[0]
		plain := column.NewSamples(ts, vs)
		for _, f := range functions {
			sp.Instant = f.Instant
			want, got := dense.New(sp.Grid.Steps), dense.New(sp.Grid.Steps)
			var wantCounts, gotCounts dense.Counts
			evaluateAlone(t, sp, f, plain, want, &wantCounts)
			evaluateAlone(t, sp, f, in, got, &gotCounts)
			require.Equal(t, wantCounts, gotCounts, f.Name)
			require.Equal(t, want.Present, got.Present, f.Name)
			for k := range want.Values {
				if want.Present[k>>6]>>(k&63)&1 == 0 {
					continue
				}
				if math.Float64bits(want.Values[k]) != math.Float64bits(got.Values[k]) {
					t.Fatalf("%s at step %d: %g, %g", f.Name, k, want.Values[k], got.Values[k])
				}
				if end := sp.Scan.Times(sp.Grid.At(k)); end > ts[known-1] {
					outside++
				}
			}
		}
	}
	require.Greater(t, outside, 10_000)
}

// packedSamples reads a number of series of the same samples, of which the first ones are
// retained in packed columns.
func packedSamples(t testing.TB, series int, ts []int64, vs []float64, known int) []column.Samples {
	return packedColumns(t, slices.Repeat([][]int64{ts}, series), vs, known)
}

// packedColumns is packedSamples of series with the given times.
func packedColumns(t testing.TB, lists [][]int64, vs []float64, known int) []column.Samples {
	all := columns(t, lists, slices.Repeat([][]float64{vs}, len(lists)), known, true)
	for _, in := range all {
		require.Len(t, in.Units, known)
	}
	return all
}

// columns reads series of the given times and values, of which the first ones are retained in columns,
// packed or not.
func columns(t testing.TB, lists [][]int64, values [][]float64, known int, packed bool) []column.Samples {
	b, until := selection.NewBuilder(0), int64(math.MaxInt64)
	if known < len(lists[0]) {
		until = lists[0][known]
	}
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	for i, ts := range lists {
		mint, maxt = min(mint, ts[0]), max(maxt, ts[len(ts)-1])
		b.Series(labels.FromStrings("series", fmt.Sprintf("%05d", i)))
		for _, part := range [][2]int{{0, known}, {known, len(ts)}} {
			if ts, vs := ts[part[0]:part[1]], values[i][part[0]:part[1]]; len(ts) > 0 {
				require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[len(ts)-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
			}
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	q := &column.Request{Set: column.NewSet(math.MaxInt64), Tick: 1, Sel: sel.WithMemos(until), Mint: mint - 1, Maxt: maxt, TakePacked: packed} // more than one window
	all := make([]column.Samples, len(lists))
	for i := range all {
		all[i], err = new(column.Reader).Load(q, i)
		require.NoError(t, err)
	}
	return all
}

func evaluateAlone(t *testing.T, sp frame.Span, f *plan.WindowFunc, in column.Samples, out dense.Row, c *dense.Counts) {
	w, frames := &Evaluator{}, &frame.Frames{Span: sp}
	defer frames.Release()
	require.NoError(t, w.Evaluate(frames, &Call{Func: Of(f), Parameters: plan.Parameters{Param: 0, Trend: 0}}, in, out, c))
	w.Finish()
}

// endsData is a counter or a gauge of whole numbers.
func endsData(r *rand.Rand) (ts []int64, vs []float64) {
	jitter, reset, gauge := r.IntN(2) == 0, r.IntN(20), r.IntN(4) == 0
	large := 1.0
	if r.IntN(8) == 0 {
		large = math.Ldexp(1, 20+r.IntN(12)) // sums of these are beyond 2^53
	}
	at, v := int64(1_700_000_000_000), float64(r.IntN(1000))*float64(r.IntN(1000))
	for range 1 + r.IntN(1000) {
		at += 15_000
		ts, vs = append(ts, at), append(vs, v)
		if jitter {
			ts[len(ts)-1] += r.Int64N(2000)
		}
		if r.IntN(50) == 0 {
			at += r.Int64N(500_000) // a gap
		}
		switch v += float64(r.IntN(300)); {
		case gauge:
			v = float64(r.IntN(5000) - 2500)
		case reset > 0 && r.IntN(reset*10) == 0:
			v = float64(r.IntN(30))
		}
	}
	for k := range vs {
		vs[k] *= large
	}
	if n := len(vs); n > 1 && r.IntN(8) == 0 {
		vs[n-1] = []float64{0.5, math.NaN(), math.Inf(1), math.Copysign(0, -1)}[r.IntN(4)]
	}
	return ts, vs
}

// windows are some windows over some samples, both packed and not, and what is made of these.
type windows struct {
	packed     column.Packed
	values     []float64
	lo, hi     []int32
	near, unit []float64
	out        []float64
}

// draw draws n windows of two samples or more, or, where odd, of any number.
func draw(r *rand.Rand, n int, odd bool) *windows {
	samples, at := 2+r.IntN(200), r.IntN(4)
	w := &windows{values: make([]float64, samples)}
	w.packed = column.Packed{Units: make([]uint32, samples), Base: float64(r.Int64N(1<<40) - 1<<39), Unit: math.Ldexp(1, r.IntN(10))}
	up := r.Uint32N(1 << 20)
	for k := range samples {
		if up += r.Uint32N(1 << 12); r.IntN(40) == 0 {
			up = []uint32{0, math.MaxUint32, r.Uint32()}[r.IntN(3)]
		}
		w.packed.Units[k], w.values[k] = up, float64(up)/3
		if odd && r.IntN(20) == 0 {
			w.values[k] = []float64{exacttest.Odd(r), math.Float64frombits(value.StaleNaN)}[r.IntN(2)]
		}
	}
	w.lo, w.hi = make([]int32, at+n)[at:], make([]int32, at+n)[at:]
	w.near, w.unit, w.out = make([]float64, at+n)[at:], make([]float64, at+n)[at:], make([]float64, at+n+4)[at:]
	hi := int32(2)
	for k := range n {
		hi = min(hi+r.Int32N(max(1, int32(2*samples/max(n, 1)))), int32(samples))
		w.lo[k], w.hi[k] = r.Int32N(hi-1), hi
		if odd && r.IntN(16) == 0 {
			w.lo[k] = hi - r.Int32N(2)
		}
		w.near[k], w.unit[k] = r.Float64()*math.Pow(10, float64(r.IntN(8)-5)), 1+r.Float64()
		if odd && r.IntN(20) == 0 {
			w.unit[k] = exacttest.Odd(r)
		}
	}
	for k := 0; odd && k < n && r.IntN(3) == 0; k++ { // steps before the first sample
		w.lo[k], w.hi[k] = 0, 0
	}
	for k := range w.out {
		w.out[k] = 0.5
	}
	return w
}

func eachDraw(seed uint64, f func(r *rand.Rand, n int, w *windows)) {
	r := rand.New(rand.NewPCG(18, seed))
	for i := range 60 {
		for n := range 71 {
			f(r, n, draw(r, n, i%2 == 1))
		}
	}
}

// TestIncreases: increases of counters, and differences of gauges, at several steps at once are those
// at each.
func TestIncreases(t *testing.T) {
	for _, least := range []float64{frame.Tiny, math.Inf(-1)} {
		packed, floats := exacttest.Abreast{Vectors: hasVectors()}, exacttest.Abreast{Vectors: hasVectors()}
		eachDraw(1, func(_ *rand.Rand, n int, w *windows) {
			for _, c := range []struct {
				at   func(int32) float64
				made func() int
				done *exacttest.Abreast
			}{
				{w.packed.Value, func() int { return packedIncreases(w.out[:n], &w.packed, w.lo, w.hi, w.unit, w.near, least) }, &packed},
				{func(i int32) float64 { return w.values[i] }, func() int { return floatIncreases(w.out[:n], w.values, w.lo, w.hi, w.unit, w.near, least) }, &floats},
			} {
				increase := func(k int) float64 { return c.at(w.hi[k]-1) - c.at(w.lo[k]) }
				c.done.Require(t, c.made(), w.out, func(k int) bool {
					return w.hi[k]-w.lo[k] < 2 || c.at(w.lo[k]) <= float64(increase(k)*w.near[k])+least
				}, func(k int) float64 { return float64(increase(k) * w.unit[k]) })
				for k := range w.out {
					w.out[k] = 0.5
				}
			}
		})
		packed.Enough(t)
		floats.Enough(t)
	}
}

// TestPackedLast: the same of the newest samples.
func TestPackedLast(t *testing.T) {
	d := exacttest.Abreast{Vectors: hasVectors()}
	eachDraw(2, func(_ *rand.Rand, n int, w *windows) {
		made := packedLast(w.out[:n], &w.packed, w.hi)
		d.Require(t, made, w.out, func(k int) bool { return w.hi[k] <= 0 }, func(k int) float64 { return w.packed.Value(w.hi[k] - 1) })
	})
	d.Enough(t)
}

// TestPackedPairs: the same of the newest two samples.
func TestPackedPairs(t *testing.T) {
	d := exacttest.Abreast{Vectors: hasVectors()}
	eachDraw(3, func(_ *rand.Rand, n int, w *windows) {
		for k := range n {
			w.hi[k] = max(w.hi[k], 2)
		}
		made := packedPairs(w.out[:n], &w.packed, w.hi, w.unit)
		last := func(k int) float64 { return w.packed.Value(w.hi[k] - 1) }
		before := func(k int) float64 { return w.packed.Value(w.hi[k] - 2) }
		d.Require(t, made, w.out, func(int) bool { return false }, func(k int) float64 { return lastPair(counterLast, before(k), last(k), w.unit[k]) })
	})
}
