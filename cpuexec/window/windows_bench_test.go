package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

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

// BenchmarkWindows applies window functions to one series of 5760 samples, 15 s
// apart over 24 h, at the 1441 steps of a minute each of the last day that ends
// with them.
func BenchmarkWindows(b *testing.B) {
	for _, name := range Names() {
		for _, kind := range []string{"bytes", "shares"} {
			ts, vs := gauge(kind, 700)
			for _, width := range []int64{5, 60, 360, 1440} {
				b.Run(fmt.Sprintf("%s/%s/%dm", name, kind, width), func(b *testing.B) {
					g := plan.NewGrid(ts[0], ts[0]+86_400_000, 60_000)
					sp := Span{Grid: g, Scan: &plan.Scan{}, Width: width * 60_000}
					w := &Evaluator{}
					out := dense.New(g.Steps)
					for b.Loop() {
						var c dense.Counts
						require.NoError(b, w.Evaluate(NewFrames(sp), &Call{Func: Of(Named(name)), Param: 0.9, Trend: 0.5}, column.NewSamples(ts, vs), out, &c))
					}
				})
			}
		}
	}
}

// BenchmarkFind finds the windows of 1441 steps over 1000 lists of 5760 times
// each, more than caches hold, by looking at them and by their runs.
func BenchmarkFind(b *testing.B) {
	const lists = 1000
	var times [lists][]int64
	var runs [lists]column.Runs
	for i := range times {
		times[i], _ = gauge("bytes", 0)
		for k := range times[i] {
			times[i][k] += int64(i) * 13
		}
		runs[i] = column.Runs{}.Add(times[i])
	}
	g := plan.NewGrid(times[0][0], times[0][0]+86_400_000, 60_000)
	for _, instant := range []bool{true, false} {
		sp := Span{Grid: g, Scan: &plan.Scan{}, Width: 300_000, instant: instant}
		for _, even := range []bool{false, true} {
			b.Run(fmt.Sprintf("instant=%v/even=%v", instant, even), func(b *testing.B) {
				var w bounds
				any := make([]uint64, (g.Steps+63)/64)
				for i := 0; b.Loop(); i = (i + 1) % lists {
					r := runs[i]
					if !even {
						r = column.Runs{}
					}
					w.find(timesOf(times[i], r), sp, any)
				}
			})
		}
	}
}

// BenchmarkEnds measures functions of the ends of windows over packed columns of a
// day, at 1440 steps of a minute: one column over and over, and as many as are larger
// than the processor's caches.
func BenchmarkEnds(b *testing.B) {
	const n, steps = 5760 + 20, 1440
	ts, vs := make([]int64, n), make([]float64, n)
	for k := range ts {
		ts[k], vs[k] = int64(k)*15_000, float64(1_000_000+k*7+k%3)
	}
	sp := Span{
		Grid: plan.Grid{Start: 300_000, Interval: 60_000, Steps: steps},
		Scan: &plan.Scan{}, Width: 300_000,
	}
	for _, columns := range []int{1, 4096} {
		ins := packedSamples(b, columns, ts, vs, n)
		for _, f := range []*plan.WindowFunc{Named("rate"), Named("irate"), Last} {
			b.Run(fmt.Sprintf("%s/%d", f.Name, columns), func(b *testing.B) {
				sp := sp
				sp.instant = f.Instant
				frames, w, out := NewFrames(sp), &Evaluator{}, dense.New(steps)
				var c dense.Counts
				i := 0
				for b.Loop() {
					if err := w.Evaluate(frames, &Call{Func: Of(f), Param: 0, Trend: 0}, ins[i%columns], out, &c); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}

// BenchmarkExtended measures a rate over windows of five minutes at 1440 steps of a day
// of samples, 15 s apart: as it is, extended, and with the start timestamps of a counter
// that began anew every hour, and of deltas.
func BenchmarkExtended(b *testing.B) {
	const n, steps = 5760 + 20, 1440
	ts, vs := make([]int64, n), make([]float64, n)
	var hourly, deltas decode.Starts
	for k := range ts {
		ts[k], vs[k] = int64(k)*15_000, 0.25*float64(k*7+k%3)
		hourly.Add(k, int64(k/240)*240*15_000-3)
		deltas.Add(k, ts[k]-15_000)
	}
	for _, c := range []struct {
		name      string
		extension plan.Extension
		starts    decode.Starts
	}{
		{name: "plain"}, {"anchored", plan.NewExtension(plan.Anchored, 300_000), nil}, {"smoothed", plan.NewExtension(plan.Smoothed, 300_000), nil},
		{"hourly", plan.Extension{}, hourly}, {"deltas", plan.Extension{}, deltas},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := &plan.Window{Scan: &plan.Scan{}, Func: Named("rate"), Width: 300_000, Extension: c.extension}
			frames := NewFrames(SpanOf(w, plan.Grid{Start: 300_000, Interval: 60_000, Steps: steps}, nil))
			s, out := &Evaluator{}, dense.New(steps)
			var got dense.Counts
			in := column.NewSamples(ts, vs)
			in.Starts = c.starts
			for b.Loop() {
				if err := s.Evaluate(frames, &Call{Func: Of(w.Func), Param: 0, Trend: 0}, in, out, &got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOwnTimes measures functions of the ends of windows over 4096 packed columns of a day, more
// than caches hold, beside the same with times that all of them share. The steps begin with the
// samples, so that the first windows are not full, as in a query of all there is.
func BenchmarkOwnTimes(b *testing.B) {
	const n, series, minute = 5760, 4096, 60_000
	r := rand.New(rand.NewPCG(1, 2))
	vs := make([]float64, n)
	for k := range vs {
		vs[k] = float64(1_000_000 + k*7 + k%3)
	}
	all := map[string][]column.Samples{}
	for _, times := range []string{"shared", "own"} {
		lists := make([][]int64, series)
		for i := range lists {
			lists[i] = make([]int64, n)
			for k := range lists[i] {
				if lists[i][k] = int64(k)*15_000 + 7_000; times == "own" {
					lists[i][k] += r.Int64N(4)
				}
			}
		}
		all[times] = packedColumns(b, lists, vs, n)
	}
	for _, c := range []struct {
		name            string
		f               *plan.WindowFunc
		width, interval int64
		from            int64
	}{
		{"rate[5m]", Named("rate"), 5 * minute, minute, 0},
		{"rate[1h]", Named("rate"), 60 * minute, minute, 0},
		{"rate[6h]", Named("rate"), 360 * minute, minute, 0},
		{"rate[5m]/15s", Named("rate"), 5 * minute, minute / 4, 18 * 60 * minute},
		{"rate[5m]/70s", Named("rate"), 5 * minute, 70_000, 0},
		{"delta[5m]", Named("delta"), 5 * minute, minute, 0},
		{"irate[5m]", Named("irate"), 5 * minute, minute, 0},
		{"irate[5m]/15s", Named("irate"), 5 * minute, minute / 4, 18 * 60 * minute},
		{"last", Last, 5 * minute, minute, 0},
	} {
		for _, times := range []string{"shared", "own"} {
			ins := all[times]
			b.Run(fmt.Sprintf("%s/%s", c.name, times), func(b *testing.B) {
				g := plan.NewGrid(c.from, 24*60*minute, c.interval)
				sp := Span{Grid: g, Scan: &plan.Scan{}, Width: c.width, instant: c.f.Instant}
				frames, w, out := NewFrames(sp), &Evaluator{}, dense.New(g.Steps)
				call, i := &Call{Func: Of(c.f)}, 0
				var counts dense.Counts
				for _, in := range ins { // resets are looked for once
					require.NoError(b, w.Evaluate(frames, call, in, out, &counts))
				}
				for b.Loop() {
					require.NoError(b, w.Evaluate(frames, call, ins[i%series], out, &counts))
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(g.Steps), "ns/step")
			})
		}
	}
}

// BenchmarkVectors measures what is done at several steps at once, where the processor can, each by
// itself at 1440 steps of a minute, and all of it for a rate of a series whose samples come late.
// GODEBUG=cpu.avx2=off has the plain forms.
func BenchmarkVectors(b *testing.B) {
	const steps, samples = 1440, 4*1440 + 20
	values, ts := make([]float64, samples), make([]int64, samples)
	p := column.Packed{Units: make([]uint32, samples), Base: 1e6, Unit: 1}
	for k := range values {
		p.Units[k] = uint32(7*k + k%3)
		values[k] = p.Value(int32(k))
		ts[k] = int64(k)*15_000 + int64(k*7%13)
	}
	fr := &frame{}
	fr.lo, fr.hi, fr.to = make([]int32, steps), make([]int32, steps), steps
	bitmap := make([]uint64, (steps+63)/64)
	dense.Row{Present: bitmap}.Mark(0, steps)
	fr.any = bitmap
	fr.extraMade.Do(func() {})
	e := &fr.extra
	e.factor, e.near, e.pairs, e.points = make([]float64, steps), make([]float64, steps), bitmap, steps
	for k := range steps {
		fr.lo[k], fr.hi[k] = int32(4*k), int32(4*k+20)
		e.factor[k], e.near[k] = 1.0/300, 0.1
	}
	out := dense.New(steps)
	s := &Evaluator{}
	s.fr, s.split, s.out, s.in.Packed = fr, steps, out, p
	sp := Span{Grid: plan.Grid{Start: 300_000, Interval: 60_000, Steps: steps}, Scan: &plan.Scan{}, Width: 300_000}
	late := packedSamples(b, 1, ts, values, samples)[0]
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"increases, packed", func() { e.packedDifferences(fr, &p, counterRate, out.Values, 0, steps) }},
		{"increases", func() { e.differences(fr, values, counterRate, out.Values, 0, steps) }},
		{"last two", func() { s.lastPairs(counterLast) }},
		{"newest", func() { s.newest() }},
		{"windows counted", func() { fr.count(make([]uint64, len(bitmap))) }},
		{"rate, late samples", func() {
			frames, w, c := NewFrames(sp), &Evaluator{}, dense.Counts{}
			if err := w.Evaluate(frames, &Call{Func: Of(Named("rate"))}, late, out, &c); err != nil {
				b.Fatal(err)
			}
			frames.Release()
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.do()
			}
		})
	}
}
