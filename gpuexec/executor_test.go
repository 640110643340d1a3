package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
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
				require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[n-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
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

// Options are those of an Executor's machine.
type Options = pipeline.Options

// Executor has one machine compute all leaves of jobs.
type Executor struct {
	*pipeline.Machine
	cpu *cpuexec.Executor
}

// New returns an executor on a device.
func New(dev *cuda.Device, cpu *cpuexec.Executor, o Options) (*Executor, error) {
	m, err := pipeline.New(dev, o)
	if err == nil {
		err = m.Kernels.Load(context.Background(), launch.Queries()...)
	}
	return &Executor{m, cpu}, err
}

// Run evaluates a job.
func (x *Executor) Run(ctx context.Context, job cpuexec.Job) (*plan.Matrix, error) {
	return x.RunStages(ctx, job, &pipeline.Stages{})
}

// RunStages is Run that says what the last leaf took.
func (x *Executor) RunStages(ctx context.Context, job cpuexec.Job, stages *pipeline.Stages) (*plan.Matrix, error) {
	a := &Alone{Machine: x.Machine}
	job.Accelerator = a
	m, err := x.cpu.Run(ctx, job)
	*stages = a.Last.Stages
	return m, err
}

// noting is an accelerator that notes a leaf and computes nothing.
type noting struct {
	Alone
	l *cpuexec.Leaf
}

var errNoted = errors.New("the leaf is noted")

func (n *noting) Evaluate(_ context.Context, l offload.Leaf, _ func(*offload.Rows) error) (o offload.Outcome, err error) {
	n.l = l.(*cpuexec.Leaf)
	return o, errNoted
}

// leafOf is the leaf that a job offers.
func leafOf(t testing.TB, ctx context.Context, job cpuexec.Job) *cpuexec.Leaf {
	n := &noting{}
	job.Accelerator = n
	_, err := cpuexec.New(cpuexec.Options{}).Run(ctx, job)
	require.ErrorIs(t, err, errNoted)
	return n.l
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

// anyWindow has the GPU take windows of any number of samples, up to the end of the test.
func anyWindow(t *testing.T) {
	sorted, selected := sortedMost, selectedMost
	t.Cleanup(func() { sortedMost, selectedMost = sorted, selected })
	sortedMost, selectedMost = math.Inf(1), math.Inf(1)
}

// TestExecutor compares with the CPU: every function under every operator, on
// random grids.
func TestExecutor(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	small := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20})
	large := executor(t, Options{Memory: 256 << 20, Staging: 16 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	anyWindow(t)
	quantiles, mixed := 0, 0
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		sel := randomSelection(t, r, []int{1, 33, 200, 260}[round%4])
		for _, f := range testFunctions {
			t.Run(fmt.Sprintf("%d_%s", round, f), func(t *testing.T) {
				for _, op := range operators() {
					exact := functions[f].Exactness == plan.BitIdentical
					if op != "max" && r.IntN(4) > 0 || !exact && slices.Contains([]string{"sum", "avg", "stddev", "stdvar"}, op) {
						continue // of values of either sign, small differences may make large ones
					}
					interval := []int64{1 + r.Int64N(300_000), 15_000, 60_000}[r.IntN(3)]
					steps := 1 + r.IntN(300)
					if f == "quantile_over_time" || f == "mad_over_time" {
						steps = 1 + steps/8 // which take long
					}
					grid := plan.Grid{Start: r.Int64N(6_000_000), Interval: interval, Steps: steps}
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

// TestCompiles: of a leaf, those kernels are asked for that it launches, and no others are loaded for it.
func TestCompiles(t *testing.T) {
	h, dev := cudatest.Control(t), cudatest.Device(t)
	r := rand.New(rand.NewPCG(33, 34))
	loads := func() int { return h.Calls("cuModuleLoadDataEx") }
	lacked := map[launch.Kernel]bool{}
	for k, f := range testFunctions {
		for i, op := range []string{"sum", "stddev", "topk", "quantile", "window"} {
			node := aggregation(op, f, []int64{60_000, 3_600_000}[r.IntN(2)], 0, nil, []string{"job"}, false)
			var root plan.Node = node
			if op == "window" {
				root = node.Input
			} else {
				node.Param = 0.5
				node.Input = &plan.Map{Func: vector.Named("abs"), Unary: plan.Unary{Input: node.Input}}
			}
			grid := plan.Grid{Start: 60_000, Interval: 60_000, Steps: []int{1, 300}[r.IntN(2)]}
			job := jobOver(root, grid, randomSelection(t, r, 40))
			job.CountSamples = i%2 == 0
			l := leafOf(t, t.Context(), job)
			if Suits(l) != "" || (i+k)%2 == 1 {
				continue
			}
			m, err := pipeline.New(dev, Options{Memory: 24 << 20, Staging: 1 << 20})
			require.NoError(t, err)
			missing := slices.DeleteFunc(kernelsOf(l), func(k launch.Kernel) bool { return m.Kernels.Loaded(k) })
			for _, k := range missing {
				lacked[k] = true
			}
			wait, _ := Compiles(m, l)
			require.Equal(t, len(missing) > 0, wait > 0)
			before := loads()
			require.NoError(t, m.Kernels.Load(t.Context(), missing...))
			require.Equal(t, len(missing), loads()-before)
			wait, _ = Compiles(m, l)
			require.Zero(t, wait)
			_, err = Evaluate(t.Context(), m, l, func(*offload.Rows) error { return nil })
			if err != nil {
				require.EqualError(t, err, mixedZeros)
			}
			require.Equal(t, len(missing), loads()-before, "%s of %s", op, f)
			require.NoError(t, m.Close())
		}
	}
	require.GreaterOrEqual(t, len(lacked), 12, "kernels that leaves lacked: %v", lacked)
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
	x, cpu := executor(t, Options{Memory: 96 << 20, Staging: 1 << 20}), cpuexec.New(cpuexec.Options{})
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

// promText is a window function in PromQL, with the parameters that aggregation
// gives it.
func promText(f string, width int64) string {
	selector := fmt.Sprintf("m_total[%dms]", width)
	switch {
	case f == window.Last.Name:
		return "m_total"
	case f == window.Timestamp.Name:
		return "timestamp(m_total)"
	case f == window.Present.Name: // what is below it
		return "present_over_time(" + selector + ")"
	case window.Named(f).Param == plan.ParamBefore:
		return f + "(0.3, " + selector + ")"
	case window.Named(f).Param == plan.ParamAfter:
		return f + "(" + selector + ", 0.3)"
	case window.Named(f).Param == plan.TwoParamsAfter:
		return f + "(" + selector + ", 0.3, 0.6)"
	}
	return f + "(" + selector + ")"
}

// TestAgainstPrometheus compares every function with Prometheus's engine over the
// same storage.
func TestAgainstPrometheus(t *testing.T) {
	r := rand.New(rand.NewPCG(95, 96))
	st := teststorage.New(t)
	app := st.Appender(t.Context())
	for i := range 40 {
		at, v := r.Int64N(600_000), 0.0
		for range []int{1, 2, 30, 500}[r.IntN(4)] {
			if at += 15_000; r.IntN(40) == 0 {
				at += r.Int64N(1_200_000)
			}
			v = randomValue(r, i%6, v)
			sample := v
			if r.IntN(60) == 0 {
				sample = math.Float64frombits(value.StaleNaN)
			}
			_, err := app.Append(0, labels.FromStrings("__name__", "m_total", "instance", fmt.Sprintf("%02d", i)), at, sample)
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	q, err := st.ChunkQuerier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m_total"))
	sel, _, err := selection.FromChunkSeriesSet(t.Context(), set, 0)
	require.NoError(t, err)
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e8, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, EnablePerStepStats: true,
		Parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true}),
	})
	anyWindow(t)
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	for _, f := range testFunctions {
		for _, width := range []int64{60_000, 300_000, 960_001, 3_600_000} {
			grid := plan.Grid{Start: 1_000_000 + r.Int64N(100_000), Interval: 60_000, Steps: 90}
			opts := promql.NewPrometheusQueryOpts(true, 0)
			query, err := engine.NewRangeQuery(t.Context(), st, opts, "max by (instance) ("+promText(f, width)+")",
				time.UnixMilli(grid.Start), time.UnixMilli(grid.End()), time.Minute)
			require.NoError(t, err)
			lookback := width
			if f == window.Last.Name || f == window.Timestamp.Name {
				lookback = 300_000
			}
			m, err := x.Run(t.Context(), jobOver(aggregation("max", f, lookback, 0, nil, []string{"instance"}, false), grid, sel))
			if f == "quantile_over_time" && err != nil {
				require.EqualError(t, err, mixedZeros)
				continue
			}
			require.NoError(t, err)
			want := query.Exec(t.Context())
			require.NoError(t, want.Err)
			// Only a mean that is put together from panes has bits of its own.
			_, panes := launch.PanesOf(launch.Steps{Interval: grid.Interval, Width: width, Count: uint32(grid.Steps)}, true)
			exact := f != "avg_over_time" || !panes
			samePoints(t, want.Value.(promql.Matrix), m, exact, promText(f, width))
			require.Equal(t, query.Stats().Samples.TotalSamplesPerStep, m.SamplesAtStep, promText(f, width))
			query.Close()
		}
	}
}

// samePoints compares with an answer of Prometheus's engine.
func samePoints(t *testing.T, want promql.Matrix, got *plan.Matrix, exact bool, what string) {
	rows := map[string]plan.Row{}
	for _, row := range got.Rows {
		rows[row.Labels.String()] = row
	}
	require.Len(t, rows, len(want), what)
	for _, w := range want {
		row := rows[w.Metric.String()]
		require.Len(t, row.Values, len(w.Floats), "%s %s", what, w.Metric)
		k := 0
		for _, run := range row.Runs {
			for step := run.First; step < run.First+run.Len; step++ {
				p, v := w.Floats[k], row.Values[k]
				require.Equal(t, p.T, got.Grid.At(int(step)), "%s %s", what, w.Metric)
				if bitsOf(p.F) != bitsOf(v) && (exact || math.Abs(p.F-v) > 1e-12*math.Abs(p.F)) {
					t.Fatalf("%s: %s at %d: %v, not %v", what, w.Metric, p.T, v, p.F)
				}
				k++
			}
		}
	}
}

// bench is a device with the kernels of groups and a stream, for one test.
type bench struct {
	t      testing.TB
	c      *cuda.Context
	k      *launch.Set
	stream cuda.Stream
}

// onBench runs f on the first device.
func onBench(t testing.TB, f func(b *bench)) {
	dev := cudatest.Device(t)
	k, err := launch.Load(dev, nil, launch.Group...)
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		f(&bench{t, c, k, s})
		require.NoError(t, c.DestroyStream(s))
		return k.Unload(c)
	}))
}

// put copies a slice to the device.
func put[T any](b *bench, data []T) cuda.Pointer {
	p := space[T](b, uint64(len(data)))
	require.NoError(b.t, b.c.CopyIn(p, layout.BytesOf(data), b.stream))
	require.NoError(b.t, b.c.Wait(b.stream))
	return p
}

// space takes room for n elements, filled with a pattern.
func space[T any](b *bench, n uint64) cuda.Pointer {
	var one T
	size := max(n, 1) * uint64(unsafe.Sizeof(one))
	p, err := b.c.Alloc(size)
	require.NoError(b.t, err)
	require.NoError(b.t, b.c.Set(p, 0xEE, size, b.stream))
	return p
}

// get copies n elements from the device.
func get[T any](b *bench, p cuda.Pointer, n uint64) []T {
	out := make([]T, n)
	if n > 0 {
		require.NoError(b.t, b.c.CopyOut(layout.BytesOf(out), p, b.stream))
	}
	require.NoError(b.t, b.c.Wait(b.stream))
	return out
}

func (b *bench) free(ps ...cuda.Pointer) {
	for _, p := range ps {
		require.NoError(b.t, b.c.Free(p))
	}
}

// encode2 makes an XOR2 chunk, with start timestamps or without.
func encode2(t testing.TB, r *rand.Rand, ts []int64, vs []float64) []byte {
	starts, start, from := make([]int64, len(ts)), int64(0), r.IntN(3)*r.IntN(40)
	for i := range ts {
		if from > 0 && i >= from && r.IntN(3) == 0 {
			start = ts[i] - r.Int64N(1<<uint(1+r.IntN(40)))
		}
		starts[i] = start
	}
	return selectiontest.Chunk(t, chunkenc.EncXOR2, starts, ts, vs)
}
