package gpuexec

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// Kinds are values that are packed in different ways, or not at all.
var Kinds = []func(r *rand.Rand, i int) float64{
	func(*rand.Rand, int) float64 { return 1 },
	func(r *rand.Rand, i int) float64 { return float64(i*40 + r.IntN(40)) },                         // 16 bits
	func(r *rand.Rand, i int) float64 { return 1e15 + float64(r.IntN(1<<31)) },                      // 32 bits
	func(r *rand.Rand, i int) float64 { return float64(r.IntN(20_000)-10_000) / 100 },               // two decimals
	func(r *rand.Rand, i int) float64 { return float64(r.IntN(2_000_000_000)-1_000_000_000) / 1e6 }, // six
	func(r *rand.Rand, i int) float64 { return r.NormFloat64() },
	func(r *rand.Rand, i int) float64 { return float64(r.IntN(1<<40)) * 64 }, // a range beyond 32 bits
	func(r *rand.Rand, i int) float64 { return []float64{math.Inf(1), 5, math.NaN(), 1 << 53}[i%4] },
	func(r *rand.Rand, i int) float64 { return float64(i % 50) },                               // a counter that falls
	func(r *rand.Rand, i int) float64 { return []float64{math.Copysign(0, -1), 0, 1, 2}[i%4] }, // -0 is no integer
}

// oddKinds are values whose sums overflow, whose quotients are subnormal, or that differ in a zero's sign, some of
// them rarely.
var oddKinds = []func(r *rand.Rand, i int) float64{
	func(_ *rand.Rand, i int) float64 { return float64(1+i/9%3) / 10 }, // constant for some windows
	func(r *rand.Rand, _ int) float64 { return math.Ldexp(r.NormFloat64(), 1022) },
	func(r *rand.Rand, _ int) float64 { return math.Ldexp(r.NormFloat64(), -960-r.IntN(115)) },
	func(r *rand.Rand, _ int) float64 { return math.Float64frombits(r.Uint64N(40) | r.Uint64N(2)<<63) }, // the smallest
	func(r *rand.Rand, _ int) float64 { return math.Copysign(0, float64(r.IntN(3)-1)) },
	func(r *rand.Rand, _ int) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(120)-60) },
	func(r *rand.Rand, i int) float64 {
		rare := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 0x1p-1060, math.Copysign(0, -1)}
		if r.IntN(50) == 0 {
			return rare[i/60%len(rare)]
		}
		return float64(r.IntN(3))
	},
}

// TestStatisticBits: functions whose state takes one sample after the other have Prometheus's very bits, of chunks
// before and after they are packed.
func TestStatisticBits(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 6
	}
	r := rand.New(rand.NewPCG(57, 58))
	x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
	defer func(most float64) { recentMost = most }(recentMost)
	for round := range rounds {
		recentMost = []float64{abi.RecentSamples - 2, math.Inf(1)}[min(round/3%3, 1)]
		intervals := [][]int64{{60_000, 60_000, 20_000}, {60_000}}[round/2%2]
		kinds, more := [][]func(*rand.Rand, int) float64{Kinds, oddKinds, oddKinds[:1]}[round%3], []int{0, 1, 2, -24, -64}
		if round%3 == 2 {
			more = more[3:] // windows in which the values do not change
		}
		sel := AnyKinds(t, r, 128+r.IntN(200), kinds, intervals...)
		for _, name := range testFunctions {
			f := functions[name]
			if f.GPU.Kernel != abi.ByStatistic {
				continue
			}
			width := int64(1+r.IntN([]int{7, 30, 600}[r.IntN(3)]))*60_000 + int64(r.IntN(2)*r.IntN(60_000))
			grid := plan.Grid{Start: 10*3_600_000 + r.Int64N(3_600_000), Interval: int64(1+r.IntN(20)) * 20_000, Steps: 1 + r.IntN(400)}
			if r.IntN(2) == 0 {
				grid.Interval = max(width/int64(2+r.IntN(8)), 20_000) // samples are in several windows
			}
			if r.IntN(2) == 0 { // steps have as many new samples each, and two windows as many as have room, or some more or fewer
				ahead := 1 + r.IntN(8)
				grid.Interval, width = int64(ahead)*60_000, int64(max(2*ahead, abi.RecentSamples-ahead+more[r.IntN(len(more))]))*60_000
			}
			exact := aggregation("max", name, width, 0, nil, []string{"i"}, false)
			exact.Input.(*plan.Window).Func = window.Bits(&f.WindowFunc)
			want, err := x.cpu.Run(t.Context(), jobOver(exact, grid, sel))
			require.NoError(t, err)
			for _, what := range []string{"packs", "packed"} {
				got, err := x.Run(t.Context(), jobOver(aggregation("max", name, width, 0, nil, []string{"i"}, false), grid, sel))
				what = fmt.Sprintf("round %d, %s: %s of %d ms, %v", round, what, name, width, grid)
				require.NoError(t, err, what)
				same(t, want, got, true, what)
			}
		}
		require.Positive(t, x.Store.Packed())
		x.Store.Forget(sel)
	}
	settled(t, x)
}

// AnyKinds makes series of each kind in chunks, whose times are regular, of 64 series in 128 all of them, late,
// or with gaps between and within chunks, some of which have a stale marker. They begin at different seconds, or ms
// in half of the calls, and lie on both sides of the edges of periods. Chunks have intervals in turns.
func AnyKinds(t testing.TB, r *rand.Rand, series int, kinds []func(*rand.Rand, int) float64, intervals ...int64) *selection.Selection {
	b, grain := selection.NewBuilder(0), []int64{1000, 1}[r.IntN(2)]
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m_total", "job", string(rune('a'+i%3)), "i", fmt.Sprintf("%04d", i)))
		kind := kinds[r.IntN(len(kinds))]
		if r.IntN(3) > 0 {
			kind = kinds[i/40%len(kinds)] // a tile of one kind
		}
		at, late := 10*3_600_000+r.Int64N(4*3_600_000)/grain*grain, r.IntN(3)
		regular := i/64%2 == 0 // as the whole tile is
		if regular {
			late = 0
		}
		for c := range 4 + r.IntN(8) {
			n := 1 + r.IntN(60)
			ts, vs := make([]int64, n), make([]float64, n)
			every := intervals[c%len(intervals)]
			for k := range ts {
				if k > 0 {
					at += every - 60_000
				}
				if at += 60_000; late == 1 {
					at += r.Int64N(2000)
				} else if late == 2 && r.IntN(30) == 0 {
					at += 300_000
				}
				ts[k], vs[k] = at, kind(r, c*60+k)
			}
			if r.IntN(4) == 0 && !regular {
				vs[r.IntN(n)] = math.Float64frombits(value.StaleNaN)
			}
			at += r.Int64N(2) * (r.Int64N(3_600_000) / grain * grain)
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[n-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// SpoilSlabs overwrites chunks that are on the device.
func SpoilSlabs(t testing.TB, x *pipeline.Machine, sel *selection.Selection) {
	for k := range sel.NumSlabs() {
		b := x.Store.Find(sel.Slab(k))
		require.NotNil(t, b)
		require.NoError(t, x.Dev.Do(func(c *cuda.Context) error {
			return errors.Join(c.Set(cuda.Pointer(b.At), 0xA5, uint64(len(sel.Slab(k).Bytes())), x.Feeder.Stream), c.Wait(x.Feeder.Stream))
		}))
		x.Store.Unpin([]*resident.Block{b})
	}
}

// TestPacked: what is packed has the bits of what it is made of, whatever functions and groups read it, and is
// decoded no more.
func TestPacked(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	functions := []string{"rate", "increase", "last", "max_over_time", "sum_over_time", "delta", "mad_over_time", "changes", "resets", "irate", "first_over_time", "ts_of_max_over_time", "count_over_time"}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
		sel := AnyKinds(t, r, 150+r.IntN(200), Kinds, 60_000)
		for k, f := range append(functions, functions...) {
			by := [][]string{nil, {"job"}, {"i"}}[r.IntN(3)]
			width := int64(1+r.IntN(40)) * 60_000
			grid := plan.Grid{Start: 10*3_600_000 + int64(r.IntN(3_600_000)), Interval: int64(1+r.IntN(30)) * 20_000, Steps: 1 + r.IntN(600)}
			if f == "mad_over_time" {
				width = 20 * 60_000
			}
			job := jobOver(aggregation("max", f, width, 0, nil, by, false), grid, sel)
			check(t, x, job, fmt.Sprintf("seed %d, %d: %s by %v", seed, k, f, by))
		}
		all := func(by string) cpuexec.Job {
			return jobOver(aggregation("max", "rate", 600_000, 0, nil, []string{by}, false), plan.Grid{Start: 36_000_000, Interval: 300_000, Steps: 1500}, sel)
		}
		check(t, x, all("job"), "all that is not packed yet")
		packed := x.Store.Packed()
		require.Positive(t, packed)
		SpoilSlabs(t, x.Machine, sel)
		check(t, x, all("i"), "chunks are not read")
		require.Equal(t, packed, x.Store.Packed())
		x.Store.Forget(sel)
		require.Zero(t, x.Store.Packed())
	}
}

// TestFiveBytes: in a store of five bytes a sample, half of them of counters, what a query asks again and again comes
// to stay as packed tiles, for which chunks make room.
func TestFiveBytes(t *testing.T) {
	sel, err := synthetic.Make(synthetic.Options{
		Series: 1024, Distinct: 1024,
		Labels: func(i int) labels.Labels {
			return labels.FromStrings("__name__", "m_total", "i", fmt.Sprintf("%04d", i))
		},
		Samples: func(i int) (ts []int64, vs []float64) {
			r, v := rand.New(rand.NewPCG(5, uint64(i))), 0.0
			for k := range 960 {
				if v += float64(r.IntN(1000)); i < 512 {
					v = float64(r.IntN(100))
				}
				ts, vs = append(ts, synthetic.Start+int64(k*15_000+i)), append(vs, v)
			}
			return ts, vs
		},
	})
	require.NoError(t, err)
	store := uint64(5 * sel.NumSamples())
	x := executor(t, Options{Memory: store * 8 / 3, Staging: 1 << 20, Segment: store / 6 &^ 255})
	job := jobOver(aggregation("sum", "rate", 300_000, 0, nil, nil, false), plan.Grid{Start: synthetic.Start, Interval: 60_000, Steps: 240}, sel)
	for asked := 1; check(t, x, job, "a small store").CopiedBytes > 0; asked++ {
		require.Less(t, asked, 8)
	}
}

// TestPackedEnds: functions of windows' ends and their differences, at steps that are as far apart as some samples
// and at others, of packed chunks of every kind, or of counters alone that fall every 50 samples. Instant selectors
// see stale markers.
func TestPackedEnds(t *testing.T) {
	names := []string{"rate", "increase", "delta", "last", "last_over_time", "first_over_time", "count_over_time", "timestamp"}
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	r := rand.New(rand.NewPCG(37, 38))
	x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
	for round := range rounds {
		sel := AnyKinds(t, r, 64+r.IntN(100), [][]func(*rand.Rand, int) float64{Kinds, Kinds[8:9]}[round%2], 60_000)
		for _, f := range names {
			width := int64(1+r.IntN([]int{7, 60, 600}[r.IntN(3)]))*60_000 + int64(r.IntN(2)*r.IntN(60_000))
			grid := plan.Grid{Start: 10*3_600_000 + 1000*r.Int64N(3_600), Interval: int64(1+r.IntN(5)) * 60_000, Steps: 1 + r.IntN(400)}
			if r.IntN(3) == 0 {
				grid.Interval = 1 + r.Int64N(300_000)
			}
			job := jobOver(aggregation("max", f, width, 0, nil, []string{"i"}, false), grid, sel)
			for _, what := range []string{"packs", "packed"} {
				check(t, x, job, fmt.Sprintf("round %d, %s: %s of %d ms, %v", round, what, f, width, grid))
			}
		}
		require.Positive(t, x.Store.Packed())
		x.Store.Forget(sel)
	}
	settled(t, x)
}

// TestPackedIntervals: windows that begin in a chunk of one scrape interval and end in one of another, both of which
// divide that of steps, also where a thread begins with the longest window; and steps that are all at one time, of
// samples 1 ms apart.
func TestPackedIntervals(t *testing.T) {
	x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
	grid, early := plan.Grid{Start: 36_256_000, Interval: 60_000, Steps: 32}, int64(36_011_010)
	for _, c := range []struct {
		intervals []int64
		width     int64
		fixed     *int64
	}{{[]int64{5000, 20_000}, 1_200_000, nil}, {[]int64{1}, 8, &early}} {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m_total", "i", "0"))
		at, v := int64(36_000_000), 0.0
		for _, interval := range c.intervals {
			ts, vs := make([]int64, 100), make([]float64, 100)
			at += 11_000
			for k := range ts {
				at += interval
				v += float64(k)
				ts[k], vs[k] = at, v
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], at, selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		for _, f := range []string{"rate", "last_over_time", "first_over_time", "last"} {
			job := jobOver(aggregation("max", f, c.width, 0, c.fixed, []string{"i"}, false), grid, sel)
			for _, what := range []string{"decoded", "packs", "packed"} {
				check(t, x, job, fmt.Sprintf("%v, %s: %s", c.intervals, what, f))
			}
		}
		require.Positive(t, x.Store.Packed())
	}
}

// TestPackedWindows: functions that look at all samples of a window, of packed chunks of every kind: windows
// within a chunk, across edges of chunks, over many, and over gaps between them.
func TestPackedWindows(t *testing.T) {
	names := []string{"quantile_over_time", "mad_over_time"}
	for name, f := range functions {
		if f.GPU.Kernel == abi.ByOperator || f.GPU.Kernel == abi.ByStatistic {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	require.Greater(t, len(names), 10)
	rounds := 24
	if testing.Short() {
		rounds = 6
	}
	r := rand.New(rand.NewPCG(17, 18))
	x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
	for round := range rounds {
		sel := AnyKinds(t, r, 64+r.IntN(100), Kinds, 60_000)
		for _, f := range names {
			minutes := 1 + r.IntN([]int{7, 60, 600}[r.IntN(3)])
			if f == "mad_over_time" {
				minutes = min(minutes, 60)
			}
			width := int64(minutes)*60_000 + int64(r.IntN(2)*r.IntN(60_000))
			grid := plan.Grid{Start: 10*3_600_000 + r.Int64N(3_600_000), Interval: int64(1+r.IntN(40)) * 20_000, Steps: 1 + r.IntN(400)}
			job := jobOver(aggregation("max", f, width, 0, nil, []string{"i"}, false), grid, sel)
			want, err := x.cpu.Run(t.Context(), job)
			require.NoError(t, err)
			for _, what := range []string{"packs", "packed"} {
				what = fmt.Sprintf("round %d, %s: %s of %d ms, %v", round, what, f, width, grid)
				got, err := x.Run(t.Context(), job)
				if f == "quantile_over_time" && err != nil {
					require.EqualError(t, err, mixedZeros, what)
					continue
				}
				require.NoError(t, err, what)
				same(t, want, got, functions[f].Exactness == plan.BitIdentical, what)
			}
		}
		require.Positive(t, x.Store.Packed())
		x.Store.Forget(sel)
	}
	settled(t, x)
}

// TestPackedRanks: quantiles of windows in one packed chunk, in two, and in many, whose integers are near each other or
// far apart, of one unit or of two.
func TestPackedRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	kinds := []func(c, i int) float64{
		func(c, i int) float64 { return float64(c*3000 + r.IntN(5000)) },
		func(c, i int) float64 { return float64(r.IntN(5)-2) - float64(c)*1e6 },
		func(c, i int) float64 { return float64(r.IntN(1<<31)) + float64(c%2)*1e8 }, // beyond 2^30
		func(c, i int) float64 { return float64(r.IntN(1<<20)) + float64(r.IntN(3))*float64(int(1)<<30) },
		func(c, i int) float64 { return float64(r.IntN(10)) + float64(c%3)*1e12 },                // far apart
		func(c, i int) float64 { return float64(r.IntN(10_000)-5000) / []float64{10, 100}[c%2] }, // of two units
		func(c, i int) float64 { return float64(r.IntN(2_000_000)+c*1_000_000) / 1000 },
		func(c, i int) float64 { return math.MaxUint32 * float64(r.IntN(2)) }, // the least and the largest integer
		func(c, i int) float64 { return []float64{1, math.NaN(), 0.1}[max(0, c%5-2)] },
	}
	b := selection.NewBuilder(0)
	for i := range 36 * len(kinds) {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%04d", i)))
		at := int64(36_000_000 + r.IntN(60_000))
		for c := range 7 {
			ts, vs := make([]int64, 20+i%2*3), make([]float64, 20+i%2*3)
			for k := range ts {
				at += 60_000
				ts[k], vs[k] = at, kinds[i/36](c, k)
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], at, selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
	for k, q := range []float64{0.9, 0, 0.1, 0.3, 0.5, 0.75, 0.99, 1} {
		for _, minutes := range []int64{2, 5, 13, 20, 31, 70, 110} {
			node := aggregation("max", "quantile_over_time", minutes*60_000, 0, nil, []string{"i"}, false)
			node.Input.(*plan.Window).Param = q
			grid := plan.Grid{Start: 36_000_000, Interval: 60_000 + int64(k)*7000, Steps: 150}
			if minutes == 110 { // windows that share some samples, or few
				grid.Interval, grid.Steps = grid.Interval*int64(2+k%3*14), 1+150/(2+k%3*14)
			}
			job := jobOver(node, grid, sel)
			check(t, x, job, fmt.Sprintf("%g of %d minutes", q, minutes))
		}
	}
	require.Positive(t, x.Store.Packed())
}

// TestPackedGaps: where a series has no chunk, what is packed has the end of the one before. So it does not serve
// another series in the same lane.
func TestPackedGaps(t *testing.T) {
	const hour = 3_600_000
	b := selection.NewBuilder(0)
	for i, begins := range [][]int64{{13}, {1, 30}, {10, 30}} {
		b.Series(labels.FromStrings("__name__", "m_total", "i", fmt.Sprint(i)))
		for _, at := range begins {
			ts, vs := make([]int64, 60), make([]float64, 60)
			for k := range ts {
				ts[k], vs[k] = at*hour+int64(k)*60_000, float64(100*i+k)
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[59], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
		}
	}
	all, err := b.Finish()
	require.NoError(t, err)
	x := executor(t, Options{Memory: 128 << 20, Staging: 1 << 20})
	for k, series := range [][]int32{{0, 1}, {0, 1}, {0, 1}, {0, 2}, {0, 2}} {
		grid := plan.Grid{Start: 10*hour + hour/2 + 60_000*int64(k), Interval: 60_000, Steps: 26 * 60}
		if k < 3 {
			grid = plan.Grid{Start: hour + 60_000*int64(k), Interval: 60_000, Steps: 32 * 60}
		}
		check(t, x, jobOver(aggregation("sum", "sum_over_time", 120_000, 0, nil, nil, false), grid, all.Pick(series)), fmt.Sprint(k, series))
	}
	require.Positive(t, x.Store.Packed())
}
