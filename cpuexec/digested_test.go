package cpuexec

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/digest"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// tileOf is the length of a tile of the model, ms.
const tileOf = 600_000

// tiled is what a cache has of some series, in tiles.
type tiled struct {
	t      *testing.T
	r      *rand.Rand
	values []func(tile int) float64 // of each series
	enc    []chunkenc.Encoding
	tiles  []*selection.Selection // the first is of tile first
	first  int
	kept   *selection.Selection // of all tiles, with memos
}

// newModel is a model of series of all kinds of values.
func newModel(t *testing.T, r *rand.Rand) *tiled {
	m := &tiled{t: t, r: r}
	for i := range 8 {
		total, level := 0.0, r.NormFloat64()
		of := map[int]func(int) float64{
			0: func(int) float64 { // a counter that is seldom reset
				if total += float64(r.IntN(40)); r.IntN(80) == 0 {
					total = float64(r.IntN(5))
				}
				return total
			},
			1: func(int) float64 { // a counter of seconds
				if total += r.Float64(); r.IntN(400) == 0 {
					total = 0
				}
				return total
			},
			2: func(int) float64 { return exacttest.Odd(r) },
			3: func(tile int) float64 { // integers, but for some tiles
				if tile%9 == 0 {
					return 1e6 * r.Float64()
				}
				return float64(r.IntN(7) - 3)
			},
			4: func(tile int) float64 { // all sorts, by turns
				if tile%5 == 0 {
					return []float64{math.NaN(), math.Inf(1), math.Copysign(0, -1), 0, 1}[r.IntN(5)]
				}
				level += r.NormFloat64() * 1e-3
				return level
			},
			5: func(int) float64 { return []float64{math.Copysign(0, -1), 0}[r.IntN(2)] },
			7: func(int) float64 { return math.Float64frombits(0x7ff8000000000001 + r.Uint64N(9)*16) }, // NaNs
			6: func(int) float64 { return 1e9 + math.Floor(1e6*r.Float64())/8 },
		}[i]
		m.values = append(m.values, of)
		m.enc = append(m.enc, []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2}[r.IntN(2)])
	}
	return m
}

// tile makes the selection of a tile, anew.
func (m *tiled) tile(n int) *selection.Selection {
	b, r := selection.NewBuilder(0), m.r
	for i, next := range m.values {
		if r.IntN(12) == 0 {
			continue // a gap
		}
		b.Series(labels.FromStrings("__name__", "m_total", "s", fmt.Sprint(i)))
		at, end := int64(n)*tileOf+r.Int64N(15_000), int64(n+1)*tileOf
		for at < end {
			var ts []int64
			var vs []float64
			stale := r.IntN(15) == 0
			for k := 1 + r.IntN(12); k > 0 && at < end; k-- {
				v := next(n)
				if stale || r.IntN(30) == 0 {
					v = math.Float64frombits(value.StaleNaN)
				}
				ts, vs = append(ts, at), append(vs, v)
				at += 15_000 + r.Int64N(3)*r.Int64N(2)*15_000
			}
			require.NoError(m.t, b.Chunk(m.enc[i], ts[0], ts[len(ts)-1], selectiontest.Chunk(m.t, m.enc[i], nil, ts, vs)))
		}
	}
	sel, err := b.Finish()
	require.NoError(m.t, err)
	return sel
}

// keep makes sel what is kept.
func (m *tiled) keep(sel *selection.Selection) {
	m.kept = sel.WithMemos(int64(m.first+len(m.tiles)) * tileOf)
}

func (m *tiled) join(parts ...*selection.Selection) *selection.Selection {
	sel, err := selection.Join(m.t.Context(), parts...)
	require.NoError(m.t, err)
	return sel
}

// move changes what is kept in one of the ways in which a cache does.
func (m *tiled) move() {
	r := m.r
	switch k := r.IntN(40); {
	case len(m.tiles) < 30 || k < 8: // time goes on
		m.tiles = append(m.tiles, m.tile(m.first+len(m.tiles)))
		if m.kept == nil {
			m.keep(m.tiles[0])
			return
		}
		m.keep(m.join(m.kept, m.tiles[len(m.tiles)-1]))
	case k < 10 && len(m.tiles) > 60: // the oldest tiles are dropped
		m.tiles, m.first = m.tiles[20:], m.first+20
		m.keep(m.kept.Slice(int64(m.first)*tileOf, math.MaxInt64))
	case k < 13: // a tile is fetched anew, and its samples are others
		n := r.IntN(len(m.tiles))
		m.tiles[n] = m.tile(m.first + n)
		from := int64(m.first+n) * tileOf
		m.keep(m.join(m.kept.Slice(math.MinInt64, from-1), m.tiles[n], m.kept.Slice(from+tileOf, math.MaxInt64)))
	case k < 14: // what there is is written anew
		m.kept = m.kept.Compact(2)
		m.keep(m.kept)
	case k < 15: // samples come late, between those that there are
		late := selection.NewBuilder(0)
		late.Series(labels.FromStrings("__name__", "m_total", "s", "0"))
		at := int64(m.first+r.IntN(len(m.tiles)))*tileOf + 7
		require.NoError(m.t, late.Floats([]int64{at, at + 15_000}, []float64{float64(r.IntN(100)), 3}))
		sel, err := late.Finish()
		require.NoError(m.t, err)
		m.keep(m.join(m.kept, sel).Slice(math.MinInt64, math.MaxInt64))
	case k < 16: // all is lost, and fetched again
		m.keep(m.join(m.tiles...))
	}
}

// query returns what a query from mint to maxt reads: what is kept and, mostly, newer samples.
func (m *tiled) query(mint, maxt int64) *selection.Selection {
	sel := m.kept
	if m.r.IntN(4) == 0 {
		sel = sel.Slice(mint, maxt)
	}
	if m.r.IntN(5) > 0 {
		return m.join(sel, m.tile(m.first+len(m.tiles)))
	}
	return sel
}

// TestDigests moves windows over what a cache has of series of all kinds, while that changes, and
// compares with an executor that retains nothing.
func TestDigests(t *testing.T) {
	defer func(least int) { leastChunks = least }(leastChunks)
	leastChunks = 8
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var functions []*plan.WindowFunc
	for _, f := range window.Functions() {
		if digest.Of(f.GPU) != nil {
			functions = append(functions, &f.WindowFunc)
		}
	}
	functions = append(functions, window.Named("quantile_over_time"))
	digested, used := 0, map[string]int{}
	limits := []int64{1 << 30, 1 << 30, 100_000, 10_000}
	for _, limit := range limits {
		m := newModel(t, r)
		x := New(Options{Workers: 1, DecodedBytes: limit})
		for range 400 {
			m.move()
			if r.IntN(100) == 0 {
				x = New(Options{Workers: 2, DecodedBytes: limits[r.IntN(len(limits))]})
			}
			if len(m.tiles) < 12 {
				continue
			}
			f := functions[r.IntN(len(functions))]
			w := &plan.Window{Scan: &plan.Scan{Offset: r.Int64N(2) * r.Int64N(5*tileOf)}, Func: f, Width: 1 + r.Int64N(int64(len(m.tiles))*tileOf)}
			end := int64(m.first+len(m.tiles))*tileOf + r.Int64N(tileOf)
			if r.IntN(20) == 0 {
				fixed := end - r.Int64N(tileOf)
				w.Scan.Fixed = &fixed
			}
			if r.IntN(20) == 0 && slices.Contains(f.Modifiers, plan.Anchored) {
				w.Extension = plan.NewExtension(plan.Anchored, 300_000)
			}
			g := plan.Grid{Start: end, Interval: 1 + r.Int64N(100_000), Steps: 1 + r.IntN(3)*r.IntN(2)}
			mint, maxt := w.Reads(g)
			sel := m.query(mint, maxt)
			job := Job{
				Node: w, Grid: g, CountSamples: r.IntN(2) == 0, MaxSamples: r.IntN(2) * 1e9,
				Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
					return sel, nil, nil
				},
			}
			want, err := New(Options{Workers: 1}).Run(t.Context(), job)
			require.NoError(t, err)
			require.Zero(t, want.Work.Digested)
			got, err := x.Run(t.Context(), job)
			require.NoError(t, err)
			require.Len(t, got.Rows, len(want.Rows))
			for k, row := range want.Rows {
				require.Equal(t, row.Labels, got.Rows[k].Labels)
				require.Equal(t, row.Runs, got.Rows[k].Runs)
				for step, v := range row.Values {
					at := got.Rows[k].Values[step]
					require.Equal(t, math.Float64bits(v), math.Float64bits(at), "%s of %s: %v and %v", f.Name, row.Labels, v, at)
				}
			}
			require.Equal(t, want.SamplesAtStep, got.SamplesAtStep, f.Name)
			require.Equal(t, want.NewSamplesAtStep, got.NewSamplesAtStep, f.Name)
			require.Equal(t, want.Peak, got.Peak, f.Name)
			if got.Work.Digested > 0 {
				digested++
				used[f.Name]++
			}
			want.Release()
			got.Release()
		}
	}
	t.Logf("%d queries used digests: %v", digested, used)
	require.Greater(t, digested, 300) // 414 of one seed, 940 of another
	for _, f := range functions[:len(functions)-1] {
		require.Positive(t, used[f.Name], f.Name)
	}
}

// BenchmarkLongWindow evaluates a window of 30 days over 1000 series scraped every 15 s, a minute
// later each time: from digests, from retained columns, and from chunks.
func BenchmarkLongWindow(b *testing.B) {
	const series, kinds, chunks, perChunk, month = 1000, 10, 1442, 120, 30 * 86_400_000
	build := selection.NewBuilder(0)
	encoded := [kinds][chunks + 1][]byte{}
	r := rand.New(rand.NewPCG(1, 2))
	times := func(k int) (ts []int64) {
		for i := range perChunk {
			ts = append(ts, int64(k*perChunk+i)*15_000)
		}
		return ts
	}
	for kind := range kinds {
		total := 0.0
		for k := range chunks + 1 {
			var vs []float64
			for range perChunk {
				if total += float64(r.IntN(200)); r.IntN(20_000) == 0 {
					total = 0
				}
				vs = append(vs, total)
			}
			encoded[kind][k] = selectiontest.Chunk(b, chunkenc.EncXOR, nil, times(k), vs)
		}
	}
	add := func(build *selection.Builder, from, to int) *selection.Selection {
		for i := range series {
			build.Series(labels.FromStrings("__name__", "m_total", "i", fmt.Sprintf("%04d", i)))
			for k := from; k < to; k++ {
				ts := times(k)
				require.NoError(b, build.Chunk(chunkenc.EncXOR, ts[0], ts[perChunk-1], encoded[i%kinds][k]))
			}
		}
		sel, err := build.Finish()
		require.NoError(b, err)
		return sel
	}
	base := add(build, 0, chunks).WithMemos(times(chunks)[0])
	tail := add(selection.NewBuilder(0), chunks, chunks+1)
	sel, err := selection.Join(b.Context(), base, tail)
	require.NoError(b, err)
	for _, name := range []string{"increase", "count_over_time", "changes", "max_over_time", "sum_over_time"} {
		f := window.Named(name)
		policy := window.Of(f).GPU
		run := func(b *testing.B, bytes int64, of abi.Policy) {
			window.Of(f).GPU = of // with none, no digests are used
			defer func() { window.Of(f).GPU = policy }()
			x, minute := New(Options{Workers: 1, DecodedBytes: bytes}), int64(0)
			evaluate := func() {
				m, err := x.Run(b.Context(), Job{
					Node: &plan.Aggregate{Func: aggregate.Named("sum"), Input: &plan.Window{Scan: &plan.Scan{}, Func: f, Width: month}},
					Grid: plan.Grid{Start: times(chunks)[0] + minute%30*60_000, Interval: 1, Steps: 1},
					Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
						return sel, nil, nil
					},
				})
				require.NoError(b, err)
				m.Release()
				minute++
			}
			evaluate()
			user := func() int64 {
				var u syscall.Rusage
				require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
				return u.Utime.Nano()
			}
			before := user()
			for b.Loop() {
				evaluate()
			}
			b.ReportMetric(float64(user()-before)/float64(b.N)/series, "user-ns/series")
			b.ReportMetric(float64(x.Columns().SizeBytes())/series, "B/series")
		}
		b.Run(name+"/digests", func(b *testing.B) { run(b, 1<<30, policy) })
		b.Run(name+"/columns", func(b *testing.B) { run(b, 1<<32, abi.Policy{}) })
		b.Run(name+"/chunks", func(b *testing.B) { run(b, 0, abi.Policy{}) })
	}
}
