package window

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

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
