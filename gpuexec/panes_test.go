package gpuexec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// hardToAdd are series whose sums are easily wrong: values that cancel out, that
// leave the range of a float64 or are at its lower end, of magnitudes far apart, a
// spike among small values, long stretches of zeros, the odd NaN and infinity.
var hardToAdd = map[string]func(r *rand.Rand, i int) float64{
	"cancels":    func(r *rand.Rand, i int) float64 { return float64(1-2*(i%2)) * (0.1 + float64(i/2%3)) },
	"nearly":     func(r *rand.Rand, i int) float64 { return float64(1-2*(i%2)) * (0.1 + float64(i%7)*1e-17) },
	"overflows":  func(r *rand.Rand, i int) float64 { return float64(1-2*r.IntN(2)) * 1e308 },
	"large":      func(r *rand.Rand, i int) float64 { return r.NormFloat64() * 1e307 },
	"tiny":       func(r *rand.Rand, i int) float64 { return r.NormFloat64() * 1e-310 },
	"small":      func(r *rand.Rand, i int) float64 { return r.NormFloat64() * 1e-200 },
	"far apart":  func(r *rand.Rand, i int) float64 { return r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20)) },
	"spike":      func(r *rand.Rand, i int) float64 { return map[bool]float64{true: 1e30, false: 0.1}[i%97 == 96] },
	"zeros":      func(r *rand.Rand, i int) float64 { return map[bool]float64{true: 1 / 3., false: 0}[i%150 > 120] },
	"minus zero": func(r *rand.Rand, i int) float64 { return math.Copysign(0, -1) },
	"thirds":     func(r *rand.Rand, i int) float64 { return float64(i) / 3 },
	"wide":       func(r *rand.Rand, i int) float64 { return float64(1<<53 - r.Int64N(1<<20)) },
	"NaN":        func(r *rand.Rand, i int) float64 { return map[bool]float64{true: math.NaN(), false: 1.1}[i%61 == 60] },
	"infinity":   func(r *rand.Rand, i int) float64 { return map[bool]float64{true: math.Inf(1), false: 1.1}[i%61 == 60] },
	"infinities": func(r *rand.Rand, i int) float64 {
		return map[int]float64{60: math.Inf(1), 30: math.Inf(-1)}[i%61] + 0.7
	},
	"huge and infinite": func(r *rand.Rand, i int) float64 {
		return map[bool]float64{true: math.Inf(-1), false: 1.7e308}[i%61 == 60]
	},
}

func hardSelection(t testing.TB, r *rand.Rand) *selection.Selection {
	b := selection.NewBuilder(0)
	for name, f := range hardToAdd {
		b.Series(labels.FromStrings("__name__", "m", "instance", name))
		at := int64(1_000_000)
		for from := 0; from < 700; from += 100 {
			ts, vs := make([]int64, 100), make([]float64, 100)
			for k := range ts {
				if at += 15_000; r.IntN(50) == 0 {
					at += r.Int64N(1_000_000)
				}
				ts[k], vs[k] = at, f(r, from+k)
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[99], encode(t, ts, vs)))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// TestPanes: sums and extremes that are put together from panes are the cores', and
// do not depend on how many steps a thread computes.
func TestPanes(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	one, many := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20}), executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	one.ThreadGoal = 1
	cpu := cpuexec.New(cpuexec.Options{})
	for range 6 {
		sel := hardSelection(t, r)
		for f, by := range functions {
			if !slices.Contains(by.GPU.Kernel.Strategies(), abi.Panes) {
				continue
			}
			for _, width := range []int64{480_000, 500_001, 960_000, 3_600_000, 7_200_001} {
				grid := plan.Grid{Start: 900_000 + r.Int64N(300_000), Interval: 60_000, Steps: 8 + r.IntN(200)}
				job := jobOver(aggregation("max", f, width, 0, nil, []string{"instance"}, false), grid, sel)
				_, ok := launch.PanesOf(launch.Steps{Interval: grid.Interval, Width: width, Count: uint32(grid.Steps)})
				require.True(t, ok)
				want, err := cpu.Run(t.Context(), job)
				require.NoError(t, err)
				got, err := one.Run(t.Context(), job)
				require.NoError(t, err)
				what := fmt.Sprintf("%s over %d ms from %d", f, width, grid.Start)
				same(t, want, got, window.Named(f).Exactness == plan.BitIdentical, what)
				again, err := many.Run(t.Context(), job)
				require.NoError(t, err)
				same(t, got, again, true, what)
			}
		}
	}
}
