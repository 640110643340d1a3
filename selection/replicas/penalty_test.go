package replicas

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
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
			got, err := Penalty(t.Context(), 0, math.MaxInt64, c.counting, one(t, c.a), one(t, c.b))
			require.NoError(t, err)
			requireSame(t, c.want, read(t, got))
		})
	}
}

// TestPenaltyKeepsChunks: a chunk of which all is chosen is the replica's, byte for byte.
func TestPenaltyKeepsChunks(t *testing.T) {
	var a, b []float64
	for i := range 240 {
		a, b = append(a, float64(i)), append(b, float64(i)+0.5)
	}
	sel := one(t, every(15, 15, a...))
	for _, counting := range []bool{false, true} {
		got, err := Penalty(t.Context(), 0, math.MaxInt64, counting, sel, one(t, every(19, 15, b...)))
		require.NoError(t, err)
		require.Len(t, got.Chunks(0), 2)
		for k, c := range got.Chunks(0) {
			require.Equal(t, sel.Bytes(sel.Chunks(0)[k]), got.Bytes(c))
		}
	}
}

// TestPenaltyHistograms: chosen histograms are known to follow no reset where that is known within a replica.
func TestPenaltyHistograms(t *testing.T) {
	hist := func(start, n int64) *selection.Selection {
		b := selection.NewBuilder(0)
		b.Series(selectiontest.Name(0))
		var times []int64
		for i := range n {
			times = append(times, 1000*(start+10*i))
		}
		require.NoError(t, b.Chunk(chunkenc.EncHistogram, times[0], times[n-1], selectiontest.Encode(t, chunkenc.EncHistogram, times, func(t int64) float64 { return float64(t / 1000) })))
		sel, err := b.Finish()
		require.NoError(t, err)
		return sel
	}
	got, err := Penalty(t.Context(), 0, math.MaxInt64, true, hist(10, 3), hist(12, 8))
	require.NoError(t, err)
	it := got.Decode(0, got.Chunks(0), math.MinInt64, math.MaxInt64, nil)
	var times []int64
	var hints []histogram.CounterResetHint
	for it.Next() != chunkenc.ValNone {
		at, h := it.AtHistogram(nil)
		want := tsdbutil.GenerateTestHistogram(at / 1000)
		require.Equal(t, want.Count, h.Count)
		times, hints = append(times, at/1000), append(hints, h.CounterResetHint)
	}
	require.NoError(t, it.Err())
	const not, unknown = histogram.NotCounterReset, histogram.UnknownCounterReset
	require.Equal(t, []int64{10, 20, 30, 52, 62, 72, 82}, times)
	require.Equal(t, []histogram.CounterResetHint{unknown, not, not, unknown, not, not, not}, hints)
}

// TestPenaltyRandom holds Penalty against the model: two lanes of counters or others, three of others.
func TestPenaltyRandom(t *testing.T) {
	for seed := range uint64(800) {
		r := rand.New(rand.NewPCG(seed, 36))
		counting := r.IntN(2) == 0
		n := 2
		if !counting && r.IntN(3) == 0 {
			n = 3
		}
		parts := make([]*selection.Selection, n)
		for k := range parts {
			parts[k] = randomReplica(t, r)
		}
		var dealt [][]point
		if all := bySeries(parts); len(all) > 0 {
			m := merger{maxt: math.MaxInt64}
			lanes, err := m.lanes(all[0])
			require.NoError(t, err)
			for _, l := range lanes {
				var points []point
				for _, p := range l.pieces {
					points = append(points, readPiece(t, *p)...)
				}
				dealt = append(dealt, points)
			}
		}
		if counting && len(dealt) > 2 {
			continue // the model does not raise what is chosen of two
		}
		if counting {
			for k := range dealt {
				dealt[k] = withoutResets(dealt[k])
			}
		}
		var want []point
		for k, lane := range dealt {
			if k == 0 {
				want = lane
			} else {
				want = chosenOfTwo(want, lane, counting)
			}
		}
		got, err := Penalty(t.Context(), 0, math.MaxInt64, counting, parts...)
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

func readPiece(t testing.TB, p piece) []point {
	return read(t, p.of.Slice(p.MinT, p.MaxT))
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
	got, err := Penalty(t.Context(), 0, math.MaxInt64, false, build(even...), build(all...), selection.Empty())
	require.NoError(t, err)
	require.Equal(t, want, got.Series())
	none, err := Penalty(t.Context(), 0, math.MaxInt64, true, selection.Empty(), selection.Empty())
	require.NoError(t, err)
	require.Zero(t, none.NumSeries())
}

func TestPenaltyEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Penalty(ctx, 0, math.MaxInt64, false, one(t, every(0, 1, 1)), one(t, every(0, 2, 1, 2)))
	require.ErrorIs(t, err, context.Canceled)
}
