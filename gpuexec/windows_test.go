package gpuexec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// Windows that share no sample come out the same whether they are computed while
// decoding or from columns: as the cores have them, to the bit.
func TestFused(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	x := executor(t, Options{Memory: 400 << 20, Staging: 1 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	var fusible []string
	for name, f := range functions {
		if slices.Contains(abi.Strategies[f.GPU.Kernel], abi.Fused) {
			fusible = append(fusible, name)
		}
	}
	slices.Sort(fusible)
	rounds := 330
	if testing.Short() {
		rounds = 90
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
		x.FusedLongest = []float64{0, 1, 1e6}[r.IntN(3)]
		what := fmt.Sprintf("round %d: %s of %d ms every %d ms, %d steps, up to %g chunks", round, name, width, interval, grid.Steps, x.FusedLongest)
		job := jobOver(aggregation("sum", name, width, r.Int64N(2)*100_000, nil, []string{"job"}, r.IntN(2) == 0), grid, sel)
		job.CountSamples = r.IntN(4) == 0
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
			require.False(t, job.CountSamples, what)
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
	x.FusedLongest = 1e6
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
					data := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
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
				job.CountSamples = false
				want, err := cpu.Run(t.Context(), job)
				require.NoError(t, err)
				var stages pipeline.Stages
				x.Store.Clear() // chunks that are there are packed
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
	"odd": func(r *rand.Rand, i int) float64 {
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e-3, 1 / 3.}[min(4, r.IntN(90))]
	},
	"far cancels": func(r *rand.Rand, i int) float64 { // what is left of large values is small
		return []float64{1e20 * float64(1+i/3%5), r.NormFloat64(), -1e20 * float64(1+i/3%5)}[i%3]
	},
	"nearly all": func(r *rand.Rand, i int) float64 { // the same, where sums lose bits of the small ones
		return []float64{math.Ldexp(1+r.Float64(), 40*(i/3%3)), r.NormFloat64() * 1e-12}[i%2] * float64(1-2*(i/2%2))
	},
	"falls": func(r *rand.Rand, i int) float64 { return math.Pow(10, float64(9-i/60)) * r.Float64() },
	"huge and infinite": func(r *rand.Rand, i int) float64 {
		return map[bool]float64{true: math.Inf(-1), false: 1.7e308}[i%61 == 60]
	},
}

// decimalsToAdd are such series of which chunks of 20 are packed as integers.
var decimalsToAdd = map[string]func(r *rand.Rand, i int) float64{
	"decimals": func(r *rand.Rand, i int) float64 { return float64(r.IntN(2_000_001)-1_000_000) / 1000 },
	"integers": func(r *rand.Rand, i int) float64 { return float64(1<<52-int64(i/100)*(1<<50)) - float64(r.IntN(1<<20)) },
	"falls": func(r *rand.Rand, i int) float64 {
		return float64(r.IntN(4_000_000)) / []float64{1, 1000, 1e6}[i/100%3]
	},
	"far cancels": func(r *rand.Rand, i int) float64 { // what is left of large values is small: windows of 480 have all 60
		large := 2e15 + float64(i%20*791_917%4_000_000)
		return []float64{large, float64(r.IntN(79) - 40), -large}[i/20%3] / 1000
	},
}

func hardSelection(t testing.TB, r *rand.Rand, of map[string]func(r *rand.Rand, i int) float64, every int64, late int) *selection.Selection {
	b := selection.NewBuilder(0)
	for name, f := range of {
		b.Series(labels.FromStrings("__name__", "m", "instance", name))
		at := int64(1_000_000)
		for from := 0; from < 1000; from += 20 {
			ts, vs := make([]int64, 20), make([]float64, 20)
			for k := range ts {
				if at += every; late > 0 && r.IntN(late) == 0 {
					at += r.Int64N(1_000_000)
				}
				ts[k], vs[k] = at, f(r, from+k)
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[19], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
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
	for round := range 3 {
		sel := hardSelection(t, r, hardToAdd, []int64{15_000, 2_500}[round%2], 50*(round%2))
		if round == 2 {
			sel = hardSelection(t, r, decimalsToAdd, 15_000, 0)
		}
		for f, by := range functions {
			if !slices.Contains(abi.Strategies[by.GPU.Kernel], abi.Panes) {
				continue
			}
			for _, width := range []int64{480_000, 500_001, 960_000, 3_840_000, 7_200_001} {
				grid := plan.Grid{Start: 900_000 + r.Int64N(300_000), Interval: []int64{60_000, 15_000}[r.IntN(2)], Steps: 8 + r.IntN(300)}
				job := jobOver(aggregation("max", f, width, 0, nil, []string{"instance"}, false), grid, sel)
				_, ok := launch.PanesOf(launch.Steps{Interval: grid.Interval, Width: width, Count: uint32(grid.Steps)}, by.GPU.Pane == abi.TotalBytes)
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

// TestPackedSums: bits of sums of packed decimals that cancel out depend on what is known of the lowest
// bit of each value.
func TestPackedSums(t *testing.T) {
	r, cpu := rand.New(rand.NewPCG(93, 94)), cpuexec.New(cpuexec.Options{})
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	for round := range 12 {
		unit, large := []float64{10, 100, 1000, 1e6}[round%4], [20]float64{}
		sel := hardSelection(t, r, map[string]func(r *rand.Rand, i int) float64{"cancels": func(r *rand.Rand, i int) float64 {
			switch i / 20 % 3 {
			case 0:
				large[i%20] = (4e15 + float64(r.IntN(60_000))) / unit
				return large[i%20]
			case 1:
				return float64(r.IntN(79)-40) / unit
			default:
				return -large[i%20]
			}
		}}, 15_000, 0)
		grid := plan.Grid{Start: 1_900_000, Interval: 15_000, Steps: 800}
		job := jobOver(aggregation("max", "sum_over_time", 900_000, 0, nil, []string{"instance"}, false), grid, sel)
		want, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		for range 3 {
			got, err := x.Run(t.Context(), job)
			require.NoError(t, err)
			same(t, want, got, true, fmt.Sprintf("round %d", round))
		}
		require.Positive(t, x.Store.Packed())
	}
}

// TestManyPassed: of the bits of the few samples of a window, a sum has lost some to the many that passed through it
// before. How many passed says so.
func TestManyPassed(t *testing.T) {
	r, b := rand.New(rand.NewPCG(97, 98)), selection.NewBuilder(0)
	for i := range 16 {
		b.Series(labels.FromStrings("__name__", "m", "instance", fmt.Sprintf("%02d", i)))
		for minute := range int64(128) {
			ts, vs := []int64{60_000 * (minute + 1)}, []float64{math.Ldexp(r.NormFloat64(), -38-r.IntN(6))}
			if minute%32 < 20 { // of those whose sums one thread makes of one another
				ts, vs = make([]int64, 50), make([]float64, 50)
				for k := range ts {
					ts[k], vs[k] = 60_000*minute+1200*int64(k+1), 1+r.Float64()
				}
			}
			require.NoError(t, b.Floats(ts, vs))
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
	grid := plan.Grid{Start: 60_000, Interval: 60_000, Steps: 128}
	check(t, x, jobOver(aggregation("max", "sum_over_time", 480_000, 0, nil, []string{"instance"}, false), grid, sel), "few after many")
}

// TestSuitsStarts: samples with start timestamps stay on the cores where the engine uses
// them and the function reads them.
func TestSuitsStarts(t *testing.T) {
	over := func(start int64) *selection.Selection {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m_total"))
		times, starts := selectiontest.TimesBetween(0, 19*15_000, 15_000), slices.Repeat([]int64{start}, 20)
		require.NoError(t, b.Chunk(chunkenc.EncXOR2, 0, 19*15_000, selectiontest.Chunk(t, chunkenc.EncXOR2, starts, times, make([]float64, 20))))
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
		l := leafOf(t, t.Context(), job)
		require.Equal(t, c.left, Suits(l) == "samples with start timestamps are not on the GPU yet", "%+v", c)
		require.Equal(t, !c.left, Suits(l) == "", "%+v", c)
	}
}

// randomMap applies any map that is on the GPU to a node.
func randomMap(r *rand.Rand, in plan.Node) plan.Node {
	names := vector.Names()
	for {
		m := &plan.Map{Func: vector.Named(names[r.IntN(len(names))]), Unary: plan.Unary{Input: in}, Swap: r.IntN(2) == 0}
		for range m.Func.Args {
			m.Args = append(m.Args, []float64{0, 1, -7, 42, 100, 0.3, math.Inf(1), math.NaN(), math.Copysign(0, -1)}[r.IntN(9)])
		}
		if m.Func.Name == "clamp" {
			m.Args = []float64{-7, 42}
		}
		if m.Func.Compares {
			m.Bool = r.IntN(2) == 0
		}
		m.Text = fmt.Sprintf("%s(%v %v %v %s)", m.Func.Name, m.Args, m.Swap, m.Bool, in)
		if vector.Of(m.Func).NoGPU == "" {
			return m
		}
	}
}

// exactFunctions are the functions that are bit-identical.
var exactFunctions = slices.DeleteFunc(slices.Clone(testFunctions), func(f string) bool {
	return f == "quantile_over_time" || functions[f].Exactness != plan.BitIdentical
})

// unsuited says why a node cannot be on the GPU, whatever its data.
func unsuited(n plan.Node) string { return cpuexec.LeafOf(n).Unsuited() }

// TestTable: definitions say what is on the GPU. Windows that are extended never are.
func TestTable(t *testing.T) {
	input := aggregation("sum", "rate", 60_000, 0, nil, nil, false).Input
	for _, f := range aggregate.Functions() {
		require.Equal(t, f.NoGPU == "", unsuited(&plan.Aggregate{Func: &f.AggregateFunc, Input: input}) == "", f.Name)
	}
	for _, f := range vector.Functions() {
		name := f.Name
		m := &plan.Map{Func: &f.MapFunc, Unary: plan.Unary{Input: input}, Args: make([]float64, f.Args)}
		require.Equal(t, f.NoGPU == "", unsuited(&plan.Aggregate{Func: aggregate.Named("sum"), Input: m}) == "", name)
	}
	for _, definition := range window.Functions() {
		f := &definition.WindowFunc
		require.Equal(t, definition.NoGPU == "", unsuited(&plan.Window{Func: f, Parameters: plan.Parameters{Param: 0.5, Trend: 0.5}}) == "", f.Name)
		for _, m := range f.Modifiers {
			extended := &plan.Window{Func: f, Parameters: plan.Parameters{Param: 0.5, Trend: 0.5}, Extension: plan.NewExtension(m, 300_000)}
			require.NotEmpty(t, unsuited(extended), f.Name)
			require.NotEmpty(t, unsuited(&plan.Aggregate{Func: aggregate.Named("sum"), Input: extended}), f.Name)
		}
	}
}

// TestProducts compares with the CPU: what is made of windows, over maps, on random
// grids, one step included; ties, zeros of either sign and NaN included.
func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	small := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20})
	large := executor(t, Options{Memory: 256 << 20, Staging: 16 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	anyWindow(t)
	rounds, mixed, quantiles := 4, 0, 0
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		sel := randomSelection(t, r, []int{1, 33, 200, 1300}[round%4])
		for range 40 {
			grid := plan.Grid{Start: r.Int64N(6_000_000), Interval: []int64{1 + r.Int64N(300_000), 15_000, 60_000}[r.IntN(3)], Steps: 1 + r.IntN(2)*r.IntN(150)}
			by, without := [][]string{nil, {"job"}, {"instance"}}[r.IntN(3)], r.IntN(4) == 0
			op := []string{"topk", "bottomk", "quantile", "sum", "window", "stdvar", "limitk", "count"}[r.IntN(8)]
			f := exactFunctions[r.IntN(len(exactFunctions))]
			sum := aggregation("sum", f, []int64{1, 60_000, 300_000, 1_234_567}[r.IntN(4)], 0, nil, by, without)
			node := sum.Input
			for range r.IntN(4) {
				node = randomMap(r, node)
			}
			if op != "window" {
				sum.Func, sum.Input = aggregate.Named(op), node
				sum.Param = float64([]int{1, 2, 5, 17, 100}[r.IntN(5)])
				if op == "quantile" {
					sum.Param = []float64{0, 1, 0.5, 0.9, 0.01, 0.999}[r.IntN(6)]
				}
				node = sum
			}
			job := jobOver(node, grid, sel)
			want, err := cpu.Run(t.Context(), job)
			require.NoError(t, err)
			what := fmt.Sprintf("%s %v of %s by %v without %v, grid %v", op, sum.Param, sum.Input, by, without, grid)
			for _, x := range []*Executor{small, large} {
				got, err := x.Run(t.Context(), job)
				if op == "quantile" {
					quantiles++
					if err != nil {
						require.EqualError(t, err, mixedZeros, what)
						mixed++
						continue
					}
				}
				require.NoError(t, err, what)
				same(t, want, got, true, what)
				require.Equal(t, 1, got.Work.Device.Leaves, what)
				require.Zero(t, got.Work.Samples, what)
			}
		}
	}
	t.Logf("%d of %d quantiles are uncertain", mixed, quantiles)
	require.Less(t, mixed, (quantiles+1)/2)
}

// TestSharedGroups: the threads of a block share what is added to a group, or a warp has one of its own. Steps of a
// block differ in what is hard to add; some are alone with a sum that is not finite.
func TestSharedGroups(t *testing.T) {
	const steps, every = 100, 60_000
	series := 1000
	if testing.Short() {
		series = 350
	}
	r := rand.New(rand.NewPCG(65, 66))
	zero, inf := math.Copysign(0, -1), math.Inf(1)
	kinds := []func(j int) float64{
		func(int) float64 { return r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15)) },
		func(j int) float64 { return []float64{1e17, r.NormFloat64(), -1e17}[j%3] },
		func(int) float64 { return zero },
		func(int) float64 { return []float64{0, zero}[r.IntN(2)] },
		func(j int) float64 { return []float64{1, 1e308, -1e308}[max(0, j-200+r.IntN(2))%3] },
		func(j int) float64 { return map[bool]float64{true: 1.7e308, false: r.Float64()}[j/4 == 15] },
		func(j int) float64 { return []float64{0.1, math.NaN()}[max(0, j-series/2)%2] },
		func(j int) float64 { return []float64{math.NaN(), 3, zero, 0}[min(j/40, r.IntN(4))] },
		func(j int) float64 { return []float64{0.1, inf, 0.1, -inf}[(j+50)/170%4] },
	}
	of := make([]int, steps) // the kind of each step
	for k := range of {
		if of[k] = r.IntN(4); k%19 == 18 || k > 80 {
			of[k] = k % len(kinds)
		}
	}
	b := selection.NewBuilder(0)
	for j := range series {
		b.Series(labels.FromStrings("__name__", "m", "instance", fmt.Sprintf("%04d", j), "job", strconv.Itoa(j%2), "pod", strconv.Itoa(j%50)))
		var ts []int64
		var vs []float64
		for k := range steps {
			if v := kinds[of[k]](j); k == 0 || r.IntN(10) > 0 && (k%23 != 5 || j%100 == 99) {
				ts, vs = append(ts, int64(k+1)*every), append(vs, v)
			}
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[len(ts)-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	cpu := cpuexec.New(cpuexec.Options{})
	whole := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20})
	for i, op := range append(operators(), "topk", "topk", "bottomk") {
		t.Run(op, func(t *testing.T) {
			parts := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20}) // of which nothing is packed yet
			parts.GoodBatch = 1 << 19
			for _, by := range [][]string{nil, {"job"}, {"pod"}, {"instance"}} {
				node := aggregation(op, "last_over_time", every, 0, nil, by, false)
				node.Param = []float64{3, 300, 20}[i%3]
				job := jobOver(node, plan.Grid{Start: every, Interval: every, Steps: steps}, sel)
				want, err := cpu.Run(t.Context(), job)
				require.NoError(t, err)
				for _, x := range []*Executor{whole, parts} {
					var stages pipeline.Stages
					got, err := x.RunStages(t.Context(), job, &stages)
					require.NoError(t, err)
					same(t, want, got, true, fmt.Sprintf("%s by %v", op, by))
					require.True(t, x == whole || by != nil || stages.Batches > 2)
				}
			}
		})
	}
}

// TestQuantileParts: however many threads share a group, and however the values lie.
func TestQuantileParts(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 64))
	onBench(t, func(b *bench) {
		for _, shape := range []struct{ series, steps, groups int }{{1, 1, 1}, {40, 33, 3}, {3000, 40, 1}, {9000, 3, 2}} {
			for kind := range 6 {
				values := make([]float64, shape.series*shape.steps)
				at := func(p, k int) *float64 { return &values[p*shape.steps+k] }
				of := make([]int, shape.series)
				for p := range shape.series {
					of[p] = r.IntN(shape.groups)
					for k := range shape.steps {
						*at(p, k) = unevenValue(r, kind)
					}
				}
				var members []uint32
				first := []uint32{0}
				for g := range shape.groups {
					for p := range shape.series {
						if of[p] == g {
							members = append(members, uint32(p))
						}
					}
					first = append(first, uint32(len(members)))
				}
				q := []float64{0, 1, 0.5, 0.93}[r.IntN(4)]
				in, ms, fs := put(b, values), put(b, members), put(b, first)
				out, fault := space[float64](b, uint64(shape.groups*shape.steps)), put(b, []uint64{^uint64(0)})
				require.NoError(t, b.k.On(b.c, b.stream).GroupQuantile(in, uint32(shape.steps), ms, fs, uint32(shape.series), uint32(shape.groups), q, out, fault))
				got := get[float64](b, out, uint64(shape.groups*shape.steps))
				for g := range shape.groups {
					for k := range shape.steps {
						var vs []float64
						for _, p := range members[first[g]:first[g+1]] {
							if v := *at(int(p), k); math.Float64bits(v) != absentBits {
								vs = append(vs, v)
							}
						}
						want := math.Float64frombits(absentBits)
						if len(vs) > 0 {
							slices.Sort(vs)
							rank := q * float64(len(vs)-1)
							lower := int(math.Floor(rank))
							weight := rank - math.Floor(rank)
							want = vs[lower]*(1-weight) + vs[min(lower+1, len(vs)-1)]*weight
						}
						if v := got[g*shape.steps+k]; bitsOf(v) != bitsOf(want) {
							t.Fatalf("%v kind %d: group %d step %d, quantile %v of %d: %v, not %v", shape, kind, g, k, q, len(vs), v, want)
						}
					}
				}
				b.free(in, ms, fs, out, fault)
			}
		}
	})
}

const absentBits = 0x7ff0000000000002

// unevenValue is one of values that are hard to tell apart, or far from each other,
// or missing.
func unevenValue(r *rand.Rand, kind int) float64 {
	switch {
	case r.IntN(20) == 0:
		return math.Float64frombits(absentBits)
	case kind == 1:
		return 7
	case kind == 2:
		return math.Float64frombits(math.Float64bits(7) + uint64(r.IntN(3)))
	case kind == 3:
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1, math.MaxFloat64, 5e-324, -5e-324}[r.IntN(7)]
	case kind == 4:
		return float64(max(0, r.IntN(9)-6))
	case kind == 5:
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(600)-300))
	}
	return r.Float64()
}
