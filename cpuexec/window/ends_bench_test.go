package window

import (
	"fmt"
	"testing"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

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
