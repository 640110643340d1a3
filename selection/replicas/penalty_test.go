package replicas

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var stale = math.Float64frombits(value.StaleNaN)

// one is a selection of one series. An empty list of times and values begins a chunk.
func one(t testing.TB, chunks ...[]point) *selection.Selection {
	t.Helper()
	b := selection.NewBuilder(0)
	b.Series(selectiontest.Name(0))
	for _, c := range chunks {
		var times []int64
		var values []float64
		for _, p := range c {
			times, values = append(times, p.t), append(values, p.v)
		}
		require.NoError(t, b.Floats(times, values))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// every returns samples step apart in seconds, whose values are given.
func every(start, step int64, values ...float64) (out []point) {
	for i, v := range values {
		out = append(out, point{t: 1000 * (start + int64(i)*step), v: v})
	}
	return out
}

// read returns the samples of the only series of a selection.
func read(t testing.TB, sel *selection.Selection) (out []point) {
	t.Helper()
	if sel.NumSeries() == 0 {
		return nil
	}
	require.Equal(t, 1, sel.NumSeries())
	it := sel.Decode(0, sel.Chunks(0), math.MinInt64, math.MaxInt64, nil)
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		if v == chunkenc.ValFloat {
			at, f := it.At()
			out = append(out, point{t: at, v: f})
			continue
		}
		out = append(out, point{t: it.AtT(), h: selectiontest.Current(it, v)})
	}
	require.NoError(t, it.Err())
	return out
}

// requireSame compares values by their bits.
func requireSame(t testing.TB, want, got []point, of ...any) {
	t.Helper()
	bits := func(ps []point) (out []string) {
		for _, p := range ps {
			out = append(out, fmt.Sprintf("%d %x %v", p.t, math.Float64bits(p.v), p.h))
		}
		return out
	}
	require.Equal(t, bits(want), bits(got), of...)
}

func hinted(function string) storage.SelectHints {
	return storage.SelectHints{End: math.MaxInt64, Func: function}
}

func functionOf(counting bool) string {
	if counting {
		return "rate"
	}
	return "sum"
}

func TestPenalty(t *testing.T) {
	for name, c := range map[string]struct {
		a, b     []point
		counting bool
		want     []point
	}{
		"one replica alone": {a: every(0, 10, 1, 2, 3), want: every(0, 10, 1, 2, 3)},
		"the first that began stays": {
			a: every(10, 10, 1, 1, 1, 1), b: every(13, 10, 2, 2, 2, 2), want: every(10, 10, 1, 1, 1, 1),
		},
		"the second began earlier": {
			a: every(5, 10, 1, 1, 1), b: every(1, 10, 2, 2, 2), want: every(1, 10, 2, 2, 2),
		},
		"a gap is left by two distances, and the other one stays": {
			a:    append(every(10, 10, 1, 1, 1), every(100, 10, 1, 1)...),
			b:    every(12, 10, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2),
			want: append(every(10, 10, 1, 1, 1), every(52, 10, 2, 2, 2, 2, 2, 2, 2)...),
		},
		"a stale marker is a sample as others": {
			a: every(10, 10, 1, stale), b: every(12, 10, 2, 2, 2, 2, 2, 2), want: append(every(10, 10, 1, stale), every(42, 10, 2, 2, 2)...),
		},
		"a counter that is behind when it is changed to is raised": {
			a: every(10, 10, 100, 110, 120), b: every(12, 10, 91, 101, 111, 112, 115, 118, 121), counting: true,
			want: append(every(10, 10, 100, 110, 120), every(52, 10, 120, 123, 126)...),
		},
		"resets are taken out, and markers too": {
			a: every(10, 10, 5, 7, stale, 1, 4), counting: true, want: []point{{t: 10_000, v: 5}, {t: 20_000, v: 7}, {t: 40_000, v: 8}, {t: 50_000, v: 11}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Penalty(t.Context(), hinted(functionOf(c.counting)), one(t, c.a), one(t, c.b))
			require.NoError(t, err)
			requireSame(t, c.want, read(t, got))
		})
	}
}

// TestPenaltyHistograms: a chosen histogram is said to follow no reset unless it was the first one of its chunk,
// as a Querier says: also of the first one of another lane, though it has fallen.
func TestPenaltyHistograms(t *testing.T) {
	for _, gauges := range []bool{false, true} {
		for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram} {
			hist := func(count float64, starts ...int64) *selection.Selection {
				b := selection.NewBuilder(0)
				b.Series(selectiontest.Name(0))
				for k, start := range starts[1:] {
					times := selectiontest.TimesBetween(1000*starts[k], 1000*start-1, 10_000)
					data := selectiontest.Encode(t, e, times, func(t int64) float64 { return count + float64(t/1000) })
					if gauges {
						data[2] |= byte(chunkenc.GaugeType)
					}
					require.NoError(t, b.Chunk(e, times[0], times[len(times)-1], data))
				}
				sel, err := b.Finish()
				require.NoError(t, err)
				return sel
			}
			got, err := Penalty(t.Context(), hinted("rate"), hist(1000, 10, 30, 50), hist(0, 12, 72, 152))
			require.NoError(t, err)
			it := got.Decode(0, got.Chunks(0), math.MinInt64, math.MaxInt64, nil)
			var times []int64
			var hints []histogram.CounterResetHint
			for it.Next() != chunkenc.ValNone {
				at, h := it.AtFloatHistogram(nil)
				counted := at / 1000
				if at < 50_000 {
					counted += 1000
				}
				require.Equal(t, tsdbutil.GenerateTestFloatHistogram(counted).Count, h.Count)
				times, hints = append(times, at/1000), append(hints, h.CounterResetHint)
			}
			require.NoError(t, it.Err())
			const not, unknown = histogram.NotCounterReset, histogram.UnknownCounterReset
			want := []histogram.CounterResetHint{unknown, not, unknown, not, not, not, not, not, not}
			if gauges {
				want = slices.Repeat([]histogram.CounterResetHint{histogram.GaugeType}, len(want))
			}
			require.Equal(t, []int64{10, 20, 30, 40, 62, 112, 122, 132, 142}, times)
			require.Equal(t, want, hints)
		}
	}
}

// TestPenaltyRandom holds Penalty against the model: two lanes of counters or others, three of others.
func TestPenaltyRandom(t *testing.T) {
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 36))
		counting := r.IntN(2) == 0
		n := 1 + r.IntN(2)
		if !counting && r.IntN(3) == 0 {
			n = 3
		}
		parts := make([]*selection.Selection, n)
		for k := range parts {
			parts[k] = randomReplica(t, r)
		}
		mint, maxt := int64(0), int64(math.MaxInt64)
		if r.IntN(2) == 0 {
			mint = r.Int64N(1_000_000)
			maxt = mint + r.Int64N(2_000_000)
		}
		var want []point
		for k, lane := range lanesOf(t, mint, maxt, parts) {
			if counting {
				lane = withoutResets(lane)
			}
			if k == 0 {
				want = lane
			} else {
				want = chosenOfTwo(want, lane, counting)
			}
		}
		got, err := Penalty(t.Context(), storage.SelectHints{Start: mint, End: maxt, Func: functionOf(counting)}, parts...)
		require.NoError(t, err)
		requireSame(t, want, read(t, got), "seed %d", seed)
	}
}

// randomReplica scrapes with an offset and jitter, restarts, misses scrapes, and sees counters reset. Now and
// then a chunk holds histograms.
func randomReplica(t testing.TB, r *rand.Rand) *selection.Selection {
	b := selection.NewBuilder(0)
	b.Series(selectiontest.Name(0))
	at, v := r.Int64N(20_000), float64(r.IntN(100))
	for range r.IntN(8) {
		var times []int64
		var values []float64
		for range 1 + r.IntN(40) {
			times, values = append(times, at), append(values, v)
			at += 15_000 + r.Int64N(20) - 10
			switch v += float64(r.IntN(5)); r.IntN(30) {
			case 0:
				v = float64(r.IntN(3))
			case 1:
				at += r.Int64N(200_000)
			case 2:
				times, values = append(times, at), append(values, stale)
				at += 15_000
			}
		}
		if r.IntN(5) == 0 {
			require.NoError(t, b.Chunk(chunkenc.EncFloatHistogram, times[0], times[len(times)-1],
				selectiontest.Encode(t, chunkenc.EncFloatHistogram, times, selectiontest.Rising)))
			continue
		}
		require.NoError(t, b.Floats(times, values))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// TestPenaltySeries: what one replica alone has is kept, and the order of series.
func TestPenaltySeries(t *testing.T) {
	build := func(numbers ...int) *selection.Selection {
		b := selection.NewBuilder(0)
		for _, i := range numbers {
			b.Series(selectiontest.Name(i))
			require.NoError(t, b.Floats([]int64{1000, 2000}, []float64{1, 2}))
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		return sel
	}
	var even, all []int
	var want []labels.Labels
	for i := range 1000 {
		if i%2 == 0 {
			even = append(even, i)
		}
		all, want = append(all, i), append(want, selectiontest.Name(i))
	}
	got, err := Penalty(t.Context(), hinted(""), build(even...), build(all...), selection.Empty())
	require.NoError(t, err)
	require.Equal(t, want, got.Series())
	none, err := Penalty(t.Context(), hinted("rate"), selection.Empty(), selection.Empty())
	require.NoError(t, err)
	require.Zero(t, none.NumSeries())
}

// TestPenaltyOfNothing: a series of counters that are no numbers is none.
func TestPenaltyOfNothing(t *testing.T) {
	b := selection.NewBuilder(0)
	for i := range 3 {
		b.Series(selectiontest.Name(i))
		require.NoError(t, b.Floats([]int64{1000, 2000}, []float64{stale, []float64{1, stale, 2}[i]}))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	got, err := Penalty(t.Context(), hinted("rate"), sel, sel)
	require.NoError(t, err)
	require.Equal(t, []labels.Labels{selectiontest.Name(0), selectiontest.Name(2)}, got.Series())
	require.EqualValues(t, 2, got.NumSamples())
}

func TestPenaltyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Penalty(ctx, hinted(""), one(t, every(0, 1, 1)), one(t, every(0, 2, 1, 2)))
	require.ErrorIs(t, err, context.Canceled)
}
