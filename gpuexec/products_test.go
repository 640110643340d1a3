package gpuexec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/plan"
)

// randomMap applies any map that is on the GPU to a node.
func randomMap(r *rand.Rand, in plan.Node) plan.Node {
	names := vector.Names()
	for {
		m := &plan.Map{Func: vector.Named(names[r.IntN(len(names))]), Input: in, Swap: r.IntN(2) == 0}
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
		if _, ok := mapOf(m); ok {
			return m
		}
	}
}

// exactFunctions are the functions that are bit-identical.
var exactFunctions = slices.DeleteFunc(slices.Clone(testFunctions), func(f string) bool {
	return f == "quantile_over_time" || functions[f].Exactness != plan.BitIdentical
})

// TestTable: plan's table of functions says what is on the GPU. Windows that are
// extended never are.
func TestTable(t *testing.T) {
	input := aggregation("sum", "rate", 60_000, 0, nil, nil, false).Input
	for _, f := range aggregate.Functions() {
		require.Equal(t, f.NoGPU == "", Suits(&plan.Aggregate{Func: &f.AggregateFunc, Input: input}) == "", f.Name)
	}
	for _, f := range vector.Functions() {
		name := f.Name
		m := &plan.Map{Func: &f.MapFunc, Input: input, Args: make([]float64, f.Args)}
		require.Equal(t, f.NoGPU == "", Suits(&plan.Aggregate{Func: aggregate.Named("sum"), Input: m}) == "", name)
	}
	for _, definition := range window.Functions() {
		f := &definition.WindowFunc
		require.Equal(t, definition.NoGPU == "", Suits(&plan.Window{Func: f, Param: 0.5, Trend: 0.5}) == "", f.Name)
		for _, m := range f.Modifiers {
			extended := &plan.Window{Func: f, Param: 0.5, Trend: 0.5, Extension: plan.NewExtension(m, 300_000)}
			require.NotEmpty(t, Suits(extended), f.Name)
			require.NotEmpty(t, Suits(&plan.Aggregate{Func: aggregate.Named("sum"), Input: extended}), f.Name)
		}
	}
}

// TestProducts compares with the CPU: what is made of windows, over maps, on random
// grids, one step included; ties, zeros of either sign and NaN included.
func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	small := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20, Slots: 3})
	large := executor(t, Options{Memory: 256 << 20, Staging: 16 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	defer func(most float64) { sortedMost = most }(sortedMost)
	sortedMost = math.Inf(1)
	rounds, mixed, quantiles := 12, 0, 0
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		sel := randomSelection(t, r, []int{1, 31, 33, 200, 64, 1300}[round%6])
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

// TestQuantileParts: however many threads share a group, and however the values lie.
func TestQuantileParts(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 64))
	onBench(t, func(b *bench) {
		for _, shape := range []struct{ series, steps, groups int }{{1, 1, 1}, {40, 33, 3}, {3000, 40, 1}, {9000, 3, 2}} {
			for kind := range 6 {
				places := layout.Aligned(shape.series, layout.Lanes)
				values := make([]float64, places*shape.steps)
				at := func(p, k int) *float64 { return &values[(p/layout.Lanes*shape.steps+k)*layout.Lanes+p%layout.Lanes] }
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
