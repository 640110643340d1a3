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
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// fuseUpTo has fused kernels take windows of so many chunks.
func fuseUpTo(t *testing.T, chunks float64) {
	before := fusedWidest
	t.Cleanup(func() { fusedWidest = before })
	fusedWidest = chunks
}

// Windows that share no sample come out the same whether they are computed while
// decoding or from columns: as the cores have them, to the bit.
func TestFused(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	x := executor(t, Options{Memory: 400 << 20, Staging: 1 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	var fusible []string
	for name, f := range functions {
		if slices.Contains(f.GPU.Kernel.Strategies(), abi.Fused) {
			fusible = append(fusible, name)
		}
	}
	rounds := 250
	if testing.Short() {
		rounds = 60
	}
	ran := map[string]int{}
	for round := range rounds {
		sel := randomSelection(t, r, 1+r.IntN(120))
		name := fusible[r.IntN(len(fusible))]
		interval := []int64{15_000, 60_000, 300_000, 3_600_000}[r.IntN(4)]
		width := interval - r.Int64N(interval)/[]int64{1, 10_000_000}[r.IntN(2)]
		grid := plan.Grid{Start: r.Int64N(3_000_000) - 500_000, Interval: interval, Steps: 1 + r.IntN(200)}
		if r.IntN(8) == 0 {
			grid.Steps, width = 1, interval*int64(1+r.IntN(20))
		}
		fuseUpTo(t, []float64{0, 1, 1e6}[r.IntN(3)])
		what := fmt.Sprintf("round %d: %s of %d ms every %d ms, %d steps, up to %g chunks", round, name, width, interval, grid.Steps, fusedWidest)
		job := jobOver(aggregation("sum", name, width, r.Int64N(2)*100_000, nil, []string{"job"}, r.IntN(2) == 0), grid, sel)
		want, wantErr := cpu.Run(t.Context(), job)
		var stages pipeline.Stages
		got, err := x.RunStages(t.Context(), job, &stages)
		if wantErr != nil {
			require.EqualError(t, err, wantErr.Error(), what)
			continue
		}
		require.NoError(t, err, what)
		same(t, want, got, functions[name].GPU.Kernel != abi.ByOperator || name == "min_over_time" || name == "max_over_time", what)
		if stages.Fused {
			ran[name]++
		}
	}
	t.Log(ran)
	require.Greater(t, len(ran), len(fusible)/2, "functions that ran fused")
	if !testing.Short() {
		require.Len(t, ran, len(fusible), "functions that ran fused")
	}
}

// Resets are added in their order, however many a window has.
func TestFusedResets(t *testing.T) {
	x := executor(t, Options{Memory: 200 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	fuseUpTo(t, 1e6)
	r := rand.New(rand.NewPCG(93, 94))
	for resets := range 12 {
		for _, enc := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
			b := selection.NewBuilder(0)
			for i := range 40 {
				b.Series(labels.FromStrings("__name__", "m_total", "job", "a", "instance", fmt.Sprintf("%05d", i)))
				for first := 0; first < 600; first += 120 {
					ts, vs := make([]int64, 120), make([]float64, 120)
					for k := range ts {
						ts[k] = int64(first+k) * 15_000
						vs[k] = float64(k%40) / 3
						if resets > 0 && k%(40/resets) == 0 {
							vs[k] = r.Float64() / 1e3
						}
					}
					data := encode(t, ts, vs)
					if enc == chunkenc.EncXOR2 {
						data = encode2(t, r, ts, vs)
					}
					require.NoError(t, b.Chunk(enc, ts[0], ts[119], data))
				}
			}
			sel, err := b.Finish()
			require.NoError(t, err)
			for _, name := range []string{"rate", "increase", "delta"} {
				job := jobOver(aggregation("max", name, 600_000, 0, nil, []string{"instance"}, false), plan.Grid{Start: 300_000, Interval: 600_000, Steps: 17}, sel)
				want, err := cpu.Run(t.Context(), job)
				require.NoError(t, err)
				var stages pipeline.Stages
				got, err := x.RunStages(t.Context(), job, &stages)
				require.NoError(t, err)
				require.Equal(t, enc == chunkenc.EncXOR, stages.Fused, "XOR2 chunks are decoded to columns")
				same(t, want, got, true, fmt.Sprintf("%s with %d resets, %s", name, resets, enc))
			}
		}
	}
}

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

// TestSuitsStarts: samples with start timestamps stay on the cores where the engine uses
// them and the function reads them.
func TestSuitsStarts(t *testing.T) {
	over := func(start int64) *selection.Selection {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m_total"))
		c := chunkenc.NewXOR2Chunk()
		app, err := c.Appender()
		require.NoError(t, err)
		for i := range int64(20) {
			app.Append(start, i*15_000, float64(i))
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR2, 0, 19*15_000, c.Bytes()))
		s, err := b.Finish()
		require.NoError(t, err)
		return s
	}
	for _, c := range []struct {
		function string
		start    int64
		uses     bool
		left     bool
	}{
		{"rate", -5, true, true}, {"resets", -5, true, true}, {"irate", -5, true, true},
		{"rate", -5, false, false}, {"rate", 0, true, false}, {"delta", -5, true, false},
	} {
		job := jobOver(aggregation("sum", c.function, 60_000, 0, nil, nil, false), plan.NewGrid(60_000, 300_000, 15_000), over(c.start))
		job.StartTimestamps = c.uses
		l, err := cpuexec.New(cpuexec.Options{}).OpenLeaf(t.Context(), job)
		require.NoError(t, err)
		require.Equal(t, c.left, SuitsLeaf(l) == "samples with start timestamps are not on the GPU yet", "%+v", c)
		require.Equal(t, !c.left, SuitsLeaf(l) == "", "%+v", c)
	}
}
