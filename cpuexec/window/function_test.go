package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/plan"
)

// ExampleFunction_Plain computes a rate over one window by its readable twin.
func ExampleFunction_Plain() {
	w := Window{Times: []int64{10_000, 25_000, 40_000, 55_000}, Values: []float64{2, 5, 1, 4}}
	w.span = &frame.Span{Grid: plan.NewGrid(60_000, 60_000, 1), Scan: &plan.Scan{}, Width: 60_000}
	fmt.Println(Of(Named("increase")).Plain(&w))
	fmt.Println(Of(Named("max_over_time")).Plain(&w))
	// Output:
	// 9.333333333333332 true
	// 5 true
}

// TestPlain: over any samples, at any steps, each function of the table has the values that its
// plain form has of each window: the same bits, or within 1e-12 where it is Compensated.
func TestPlain(t *testing.T) {
	for _, f := range Functions() {
		if f.Plain == nil {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 8))
			values := 0
			for range 150 {
				ts, vs := plainData(r)
				sp := frame.Span{
					Grid: plan.Grid{Start: ts[0] + r.Int64N(400_000) - 200_000, Interval: 1 + r.Int64N(90_000), Steps: 1 + r.IntN(200)},
					Scan: &plan.Scan{Offset: r.Int64N(2) * 60_000}, Width: 1 + r.Int64N(900_000),
				}
				param := []float64{0.03, 0.3, 0.5, 0.9, 0.99}[r.IntN(5)]
				if f.Name == "quantile_over_time" && r.IntN(3) == 0 {
					param = float64(r.IntN(2))
				}
				call := &Call{Func: f, Parameters: plan.Parameters{Param: param, Trend: 0.6}}
				if f.Param != plan.NoParam && r.IntN(4) == 0 {
					for i := range f.Param.Count() {
						for range sp.Grid.Steps {
							call.Varying[i] = append(call.Varying[i], r.Float64())
						}
					}
				}
				got, counts := dense.New(sp.Grid.Steps), dense.Counts{}
				e, frames := &Evaluator{}, &frame.Frames{Span: sp}
				require.NoError(t, e.Evaluate(frames, call, column.NewSamples(ts, vs), got, &counts))
				e.Finish()
				frames.Release()
				values += requirePlain(t, sp, call, ts, vs, got)
			}
			require.Greater(t, values, 3_000)
		})
	}
}

// TestWaiting: at one step each of several series has the value that it has by itself, however many
// there are and however long.
func TestWaiting(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	for range 200 {
		for _, f := range Functions() {
			if f.Plain == nil {
				continue
			}
			e, call := &Evaluator{}, &Call{Func: f, Parameters: plan.Parameters{Param: 0.3, Trend: 0.6}}
			sp := frame.Span{Grid: plan.Grid{Start: 1_700_003_000_000, Interval: 1, Steps: 1}, Scan: &plan.Scan{}, Width: 1 + r.Int64N(3_600_000)}
			frames, series := &frame.Frames{Span: sp}, make([]func(), 1+r.IntN(20))
			for i := range series {
				ts, vs := plainData(r)
				out, c := dense.New(1), dense.Counts{}
				require.NoError(t, e.Evaluate(frames, call, column.NewSamples(slices.Clone(ts), slices.Clone(vs)), out, &c))
				series[i] = func() { require.Equal(t, c.Points, requirePlain(t, sp, call, ts, vs, out), f.Name) }
			}
			e.Finish()
			for _, check := range series {
				check()
			}
			frames.Release()
		}
	}
}

// requirePlain compares got with what the plain form comes to, and returns the number of values.
func requirePlain(t *testing.T, sp frame.Span, call *Call, ts []int64, vs []float64, got dense.Row) (values int) {
	for k := range sp.Grid.Steps {
		w := Window{span: &sp, step: k, Param: call.Param, Trend: call.Trend}
		w.vary(&call.Varying, k)
		for i, at := range ts {
			if at > w.Start() && at <= w.End() {
				w.Times, w.Values = append(w.Times, at), append(w.Values, vs[i])
			}
		}
		want, ok := 0.0, false
		if len(w.Times) > 0 {
			want, ok = call.Func.Plain(&w)
		}
		require.Equal(t, ok, got.Has(k, 1), "step %d", k)
		if !ok {
			continue
		}
		values++
		v := got.Values[k]
		same := math.Float64bits(v) == math.Float64bits(want) || v != v && want != want
		if call.Func.Exactness == plan.Compensated {
			same = same || math.Abs(v-want) <= 1e-12*math.Abs(want)
		}
		require.True(t, same, "step %d: %g, not %g", k, v, want)
	}
	return values
}

// plainData is a counter or a gauge, at regular times or not, some of its values odd.
func plainData(r *rand.Rand) (ts []int64, vs []float64) {
	counter, regular, odd := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(4) == 0
	at, v := int64(1_700_000_000_000), float64(r.IntN(100))
	for range 1 + r.IntN(300) {
		if at += 15_000; !regular {
			at += r.Int64N(20_000)
		}
		switch v += float64(r.IntN(90)) / 3; {
		case !counter:
			v = r.NormFloat64() * 100
		case r.IntN(40) == 0:
			v = float64(r.IntN(5))
		}
		x := v
		if odd && r.IntN(20) == 0 {
			x = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, math.MaxFloat64}[r.IntN(6)]
		}
		ts, vs = append(ts, at), append(vs, x)
	}
	return ts, vs
}

// gauge is a day of samples every 15 s, at most jitter ms early or late: bytes
// in whole pages that wander, or shares between 0 and 1.
func gauge(kind string, jitter int64) (ts []int64, vs []float64) {
	r := rand.New(rand.NewPCG(3, 5))
	level := 1e6
	for i := range 5760 {
		ts = append(ts, 1_700_000_003_217+int64(i)*15_000+r.Int64N(2*jitter+1)-jitter)
		level += (1e6-level)*0.02 + r.NormFloat64()*1e4
		switch kind {
		case "bytes":
			vs = append(vs, 4096*math.Floor(level))
		default:
			vs = append(vs, level/2e6)
		}
	}
	return ts, vs
}

// wandering draws a random walk in all bits, in whole pages or with two decimals.
func wandering(r *rand.Rand, kind string) (vs []float64) {
	level := 1e6
	for range 5760 {
		level += (1e6-level)*0.02 + r.NormFloat64()*1e4
		switch kind {
		case "whole":
			vs = append(vs, 4096*math.Floor(level))
		case "cents":
			vs = append(vs, math.Round(level*100)/100)
		default:
			vs = append(vs, level)
		}
	}
	return vs
}

// userTime is the processor time that the process has taken, in ns.
func userTime(b *testing.B) int64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano()
}

// BenchmarkWindows applies window functions to series of 5760 samples, 15 s apart over 24 h, and
// reports the ns of processor time of a sample. Late samples are of all bits, up to a twentieth of
// their distance early or late, those of four series alike.
func BenchmarkWindows(b *testing.B) {
	const series, minute = 32, 60_000
	for _, name := range Names() {
		for _, kind := range []string{"bits", "whole", "cents", "late"} {
			ts, _ := gauge("", 0)
			r := rand.New(rand.NewPCG(3, 5))
			var lists [][]int64
			var values [][]float64
			for i := range series {
				if kind == "late" && i%4 == 0 {
					ts = slices.Clone(ts)
					for k := range ts {
						ts[k] = 1_700_000_003_217 + int64(k)*15_000 + r.Int64N(1501) - 750
					}
				}
				lists, values = append(lists, ts), append(values, wandering(r, kind))
			}
			all := columns(b, lists, values, len(ts), Of(Named(name)).Reads != Unpacked)
			for _, shape := range []struct{ width, every int64 }{{5, 1}, {60, 60}, {1440, 1440}, {60, 1}, {360, 1}, {1440, 1}} {
				b.Run(fmt.Sprintf("%s/%s/%dm-%dm", name, kind, shape.width, shape.every), func(b *testing.B) {
					first := ts[0]/minute*minute + min(shape.width, shape.every)*minute
					g := plan.NewGrid(first, ts[len(ts)-1]+minute/2, shape.every*minute)
					sp := frame.Span{Grid: g, Scan: &plan.Scan{}, Width: shape.width * minute}
					w, call := &Evaluator{}, &Call{Func: Of(Named(name)), Parameters: plan.Parameters{Param: 0.9, Trend: 0.5}}
					out := dense.New(g.Steps)
					begun := userTime(b)
					for b.Loop() {
						frames := &frame.Frames{Span: sp}
						for _, in := range all {
							var c dense.Counts
							require.NoError(b, w.Evaluate(frames, call, in, out, &c))
						}
						w.Finish()
						frames.Release()
					}
					b.ReportMetric(float64(userTime(b)-begun)/float64(b.N*series*len(ts)), "ns/sample")
				})
			}
		}
	}
}
