package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/column"
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
