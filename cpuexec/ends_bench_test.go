package cpuexec

import (
	"fmt"
	"testing"

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
	sp := span{
		grid: plan.Grid{Start: 300_000, Interval: 60_000, Steps: steps},
		scan: &plan.Scan{}, width: 300_000,
	}
	for _, columns := range []int{1, 4096} {
		base, unit, _ := rangeOf(vs)
		ins := make([]samples, columns)
		times := &sharedTimes{ts: ts, even: findRuns(ts)}
		for i := range ins {
			c := &column{sharedTimes: times, packed: pack(vs, base, unit)}
			ins[i] = samples{times: sampleTimes{shared: ts, list: times}, col: c, packed: c.packed}
		}
		for _, f := range []*plan.WindowFunc{plan.Windows["rate"], plan.Windows["irate"], plan.Last} {
			b.Run(fmt.Sprintf("%s/%d", f.Name, columns), func(b *testing.B) {
				sp := sp
				sp.instant = f.Instant
				frames, w, out := newFrames(sp), &worker{}, newRow(steps)
				var c counts
				i := 0
				for b.Loop() {
					if err := w.compute(frames, f, 0, 0, ins[i%columns], out, &c); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}
