package gpuexec

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// randomSelection makes series of samples of all kinds: counters with resets,
// gauges, constants, odd values and stale markers; with gaps; of one chunk or
// many, of one sample or many; of XOR chunks, XOR2 chunks or both.
func randomSelection(t testing.TB, r *rand.Rand, series int) *selection.Selection {
	b := selection.NewBuilder(0)
	seconds := max(0, r.IntN(9)-4) // of four chunks, those that are XOR2 chunks
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m_total", "job", strconv.Itoa(r.IntN(5)), "instance", fmt.Sprintf("%05d", i)))
		samples := []int{1, 2, 5, 100, 400}[r.IntN(5)]
		chunk := []int{1, 7, 30, 120, 500}[r.IntN(5)]
		jitter := int64(1 + r.IntN(2)*2000)
		at, v, kind := r.Int64N(600_000), 0.0, r.IntN(6)
		for samples > 0 {
			n := min(samples, 1+r.IntN(chunk))
			samples -= n
			ts, vs := make([]int64, n), make([]float64, n)
			for k := range ts {
				at += 15_000 + r.Int64N(jitter)
				if r.IntN(40) == 0 {
					at += r.Int64N(1_200_000)
				}
				v = randomValue(r, kind, v)
				ts[k], vs[k] = at, v
				if r.IntN(60) == 0 {
					vs[k] = math.Float64frombits(value.StaleNaN)
				}
			}
			if r.IntN(4) < seconds {
				require.NoError(t, b.Chunk(chunkenc.EncXOR2, ts[0], ts[n-1], encode2(t, r, ts, vs)))
			} else {
				require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[n-1], encode(t, ts, vs)))
			}
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

func randomValue(r *rand.Rand, kind int, last float64) float64 {
	switch kind {
	case 0, 1:
		if r.IntN(30) == 0 {
			return float64(r.IntN(10))
		}
		return last + float64(r.IntN(100))/3
	case 2:
		return r.NormFloat64() * 1e3
	case 3:
		return 42
	case 4:
		return []float64{0, math.NaN(), math.Inf(1), math.Copysign(0, -1), -7, 1e308, -1e308}[r.IntN(7)]
	}
	return float64(r.IntN(3))
}

// aggregation is a node over the given functions.
func aggregation(op, f string, width, offset int64, fixed *int64, by []string, without bool) *plan.Aggregate {
	w := &plan.Window{Scan: &plan.Scan{Offset: offset, Fixed: fixed, Origin: plan.Origin{Text: "m_total"}}, Func: &functions[f].WindowFunc, Width: width, Origin: plan.Origin{Text: f + "(m_total)"}}
	switch w.Func.Param {
	case plan.ParamBefore, plan.ParamAfter:
		w.Param = 0.3
	case plan.TwoParamsAfter:
		w.Param, w.Trend = 0.3, 0.6
	}
	return &plan.Aggregate{Func: aggregate.Named(op), Input: w, Grouping: by, Without: without, Origin: plan.Origin{Text: op + "(" + f + "(m_total))"}}
}

// jobOver is a job that reads a selection.
func jobOver(node plan.Node, grid plan.Grid, sel *selection.Selection) cpuexec.Job {
	return cpuexec.Job{Node: node, Grid: grid, CountSamples: true, Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
		return sel, nil, nil
	}}
}

// executor is one on the first device, closed with the test.
func executor(t testing.TB, o Options) *Executor {
	x, err := New(cudatest.Device(t), cpuexec.New(cpuexec.Options{}), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// same compares results: bit by bit, or where two sums of the same window may
// differ, within 1e-12.
func same(t testing.TB, want, got *plan.Matrix, exact bool, what string) {
	require.Equal(t, len(want.Rows), len(got.Rows), "%s: rows", what)
	require.Equal(t, want.Peak, got.Peak, what)
	require.Equal(t, want.SamplesAtStep, got.SamplesAtStep, what)
	require.Equal(t, want.NewSamplesAtStep, got.NewSamplesAtStep, what)
	require.Equal(t, want.Annotations.AsErrors(), got.Annotations.AsErrors(), what)
	for i, w := range want.Rows {
		g := got.Rows[i]
		require.Equal(t, w.Labels, g.Labels, what)
		require.Equal(t, w.Runs, g.Runs, "%s %s", what, w.Labels)
		for k := range w.Values {
			a, b := w.Values[k], g.Values[k]
			if bitsOf(a) == bitsOf(b) || !exact && math.Abs(a-b) <= 1e-12*math.Abs(a) {
				continue
			}
			t.Fatalf("%s: %s value %d: %v (%x), not %v (%x)", what, w.Labels, k, b, bitsOf(b), a, bitsOf(a))
		}
	}
}

// functions are the window functions that kernels compute, by name.
var functions = func() map[string]*window.Function {
	out := map[string]*window.Function{}
	for _, f := range window.Functions() {
		if f.NoGPU == "" {
			out[f.Name] = f
		}
	}
	return out
}()

var testFunctions = slices.Sorted(maps.Keys(functions))

// operators are those whose state for a group at a step has a fixed size.
func operators() (names []string) {
	for _, f := range aggregate.Functions() {
		if f.Adds() {
			names = append(names, f.Name)
		}
	}
	return names
}

const mixedZeros = "not on the GPU: a quantile depends on how zeros of either sign are sorted"

// TestExecutor compares with the CPU: every function under every operator, on
// random grids.
func TestExecutor(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	small := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20, Slots: 3})
	large := executor(t, Options{Memory: 256 << 20, Staging: 16 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	defer func(most float64) { sortedMost = most }(sortedMost)
	sortedMost = math.Inf(1)
	quantiles, mixed := 0, 0
	rounds := 12
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		sel := randomSelection(t, r, []int{1, 31, 33, 200, 64, 500}[round%6])
		for _, f := range testFunctions {
			t.Run(fmt.Sprintf("%d_%s", round, f), func(t *testing.T) {
				for _, op := range operators() {
					exact := functions[f].Exactness == plan.BitIdentical
					if op != "max" && r.IntN(4) > 0 || !exact && slices.Contains([]string{"sum", "avg", "stddev", "stdvar"}, op) {
						continue // of values of either sign, small differences may make large ones
					}
					interval := []int64{1 + r.Int64N(300_000), 15_000, 60_000}[r.IntN(3)]
					grid := plan.Grid{Start: r.Int64N(6_000_000), Interval: interval, Steps: 1 + r.IntN(300)}
					var fixed *int64
					if at := r.Int64N(8_000_000); r.IntN(8) == 0 {
						fixed = &at
					}
					by, without := [][]string{nil, {"job"}, {"instance"}}[r.IntN(3)], r.IntN(3) == 0
					node := aggregation(op, f, []int64{1, 15_000, 60_000, 300_000, 1_234_567, 3_600_000, 86_400_000}[r.IntN(7)], r.Int64N(3)*100_000, fixed, by, without)
					job := jobOver(node, grid, sel)
					want, err := cpu.Run(t.Context(), job)
					require.NoError(t, err)
					what := fmt.Sprintf("%s by %v without %v, grid %v, width %d", node, by, without, grid, node.Input.(*plan.Window).Width)
					for _, x := range []*Executor{small, large} {
						got, err := x.Run(t.Context(), job)
						if f == "quantile_over_time" {
							quantiles++
							if err != nil {
								require.EqualError(t, err, mixedZeros)
								mixed++
								continue
							}
						}
						require.NoError(t, err, what)
						same(t, want, got, exact, what)
					}
				}
			})
		}
	}
	require.LessOrEqual(t, mixed, quantiles/2, "uncertain quantiles")
}

// TestBefore1970: times of samples from before 1970, which Prometheus's engine answers as they are, or as 0.
func TestBefore1970(t *testing.T) {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m", "job", "a", "instance", "i"))
	for at := int64(-600_000); at < 600_000; at += 15_000 {
		require.NoError(t, b.Floats([]int64{at}, []float64{float64(at % 7)}))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	x, cpu := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20, Slots: 3}), cpuexec.New(cpuexec.Options{})
	for _, f := range testFunctions {
		if strings.HasPrefix(f, "ts_of") || f == "timestamp" {
			job := jobOver(aggregation("max", f, 60_000, 0, nil, []string{"job"}, false), plan.Grid{Start: -500_000, Interval: 60_000, Steps: 16}, sel)
			want, err := cpu.Run(t.Context(), job)
			require.NoError(t, err)
			got, err := x.Run(t.Context(), job)
			require.NoError(t, err)
			same(t, want, got, true, f)
		}
	}
}

// bitsOf is the bits of a sum. Which NaN comes of an operation is the
// processor's business.
func bitsOf(v float64) uint64 {
	if math.IsNaN(v) {
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(v)
}
