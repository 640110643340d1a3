package selection

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/slab"
)

func TestBuilderSortsAndJoins(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(2))
	add(t, b, chunkenc.EncXOR, timesBetween(1000, 1900, 100), rising)
	b.Series(name(0))
	b.Series(name(1))
	add(t, b, chunkenc.EncXOR, timesBetween(3000, 3900, 100), rising)
	add(t, b, chunkenc.EncXOR, timesBetween(2000, 2900, 100), rising)
	b.Series(name(2))
	add(t, b, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
	s := finish(t, b)

	require.Equal(t, 2, s.NumSeries(), "a series without chunks is dropped")
	require.Equal(t, 4, s.NumChunks())
	require.EqualValues(t, 40, s.NumSamples())
	require.Equal(t, name(1), s.Labels(0))
	require.Equal(t, []int64{2000, 3000}, []int64{s.Chunks(0)[0].MinT, s.Chunks(0)[1].MinT})
	require.Equal(t, []int64{0, 1000}, []int64{s.Chunks(1)[0].MinT, s.Chunks(1)[1].MinT})
	require.True(t, s.OnlyFloats())
	require.True(t, s.Has(chunkenc.EncXOR))
	require.False(t, s.Has(chunkenc.EncHistogram))
}

func TestBuilderEmpty(t *testing.T) {
	s := finish(t, NewBuilder(0))
	require.Zero(t, s.NumSeries())
	require.True(t, s.OnlyFloats())
	b := NewBuilder(0)
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 0, []byte{0, 0}), "a chunk without samples is left out")
	s = finish(t, b)
	require.Zero(t, s.NumSeries())
	require.Zero(t, Empty().NumChunks())
	requireNormal(t, Empty())
}

func TestBuilderLimit(t *testing.T) {
	data := encode(t, chunkenc.EncXOR, timesBetween(0, 1000, 100), rising)
	b := NewBuilder(int64(2 * len(data)))
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 1000, data))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 2000, 3000, data))
	require.EqualValues(t, 2*len(data), b.Bytes())
	err := b.Chunk(chunkenc.EncXOR, 4000, 5000, data)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, name(0).String())
}

func TestBuilderRefuses(t *testing.T) {
	good := encode(t, chunkenc.EncXOR, timesBetween(0, 1000, 100), rising)
	b := NewBuilder(0)
	b.Series(name(0))
	require.ErrorContains(t, b.Chunk(chunkenc.EncNone, 0, 1, good), "unknown chunk encoding")
	require.ErrorContains(t, b.Chunk(200, 0, 1, good), "unknown chunk encoding")
	var ce *CorruptError
	for _, data := range [][]byte{nil, {0}} {
		require.ErrorAs(t, b.Chunk(chunkenc.EncXOR, 0, 1, data), &ce)
		require.Equal(t, name(0), ce.Series)
	}
	require.ErrorAs(t, b.Chunk(chunkenc.EncXOR, 2, 1, good), &ce)
	require.ErrorAs(t, b.Chunk(chunkenc.EncHistogram, 0, 1, []byte{0, 1, 0}), &ce, "no bucket layout")
	require.ErrorAs(t, b.Chunk(chunkenc.EncXOR, 0, math.MaxInt64, good[:len(good)-4]), &ce)
	require.ErrorContains(t, ce, name(0).String())
	require.Error(t, ce.Unwrap())
}

func TestBuilderFindsTheEndOfAnOpenChunk(t *testing.T) {
	for _, e := range encodings {
		b := NewBuilder(0)
		b.Series(name(0))
		require.NoError(t, b.Chunk(e, 500, math.MaxInt64, encode(t, e, timesBetween(500, 1700, 100), rising)))
		s := finish(t, b)
		require.EqualValues(t, 1700, s.Chunks(0)[0].MaxT, e)
		require.Len(t, all(t, s)[name(0).String()], 13)
	}
}

func TestBuilderManySlabs(t *testing.T) {
	times := timesBetween(0, 119*15_000, 15_000)
	data := encode(t, chunkenc.EncXOR, times, func(t int64) float64 { return math.Sqrt(float64(t)) })
	b := NewBuilder(0)
	const n = 3000
	for i := range n {
		b.Series(name(i))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, times[119], data))
	}
	s := finish(t, b)
	require.Greater(t, len(s.slabs), 3)
	for i := range n {
		require.Equal(t, data, s.Bytes(s.Chunks(i)[0]))
	}
	require.Less(t, s.SizeBytes(), int64(3*n*len(data)))

	// A chunk larger than any slab gets one of its own.
	b = NewBuilder(0)
	b.Series(labels.FromStrings("a", "b"))
	large := append([]byte{0, 1}, make([]byte, 2*slab.MaxBytes)...)
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 0, large))
	require.Equal(t, large, finish(t, b).Bytes(finish2(t, b).Chunks(0)[0]))
}

// finish2 finishes a copy of b.
func finish2(t *testing.T, b *Builder) *Selection {
	c := *b
	return finish(t, &c)
}

type labelsT = labels.Labels

// filled is a TSDB with float, histogram and float histogram series, some of
// them changing type.
func filled(t *testing.T) *teststorage.TestStorage {
	db := teststorage.New(t)
	r := rand.New(rand.NewPCG(20, 1))
	app := db.Appender(t.Context())
	for i := range 12 {
		l := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
		for k := range int64(700) {
			ts := k*15_000 + r.Int64N(50)
			var err error
			switch {
			case i%4 == 1, i%4 == 3 && k/100%2 == 0:
				_, err = app.AppendHistogram(0, l, ts, tsdbutil.GenerateTestHistogram(k), nil)
			case i%4 == 2:
				_, err = app.AppendHistogram(0, l, ts, nil, tsdbutil.GenerateTestFloatHistogram(k))
			default:
				_, err = app.Append(0, l, ts, float64(r.IntN(50)))
			}
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	return db
}

func TestRoundTrips(t *testing.T) {
	db := filled(t)
	m := labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")
	for _, r := range [][2]int64{{0, 20_000_000}, {1_000_000, 5_000_000}, {30_000_000, 40_000_000}} {
		q, err := db.Querier(r[0], r[1])
		require.NoError(t, err)
		want, _ := content(t, q.Select(t.Context(), true, nil, m))

		s, ws, err := FromSeriesSet(t.Context(), q.Select(t.Context(), false, nil, m), 0)
		require.NoError(t, err)
		require.Empty(t, ws)
		requireNormal(t, s)
		require.Equal(t, want, all(t, s))
		require.NoError(t, q.Close())

		for _, whole := range []bool{false, true} {
			cq, err := db.ChunkQuerier(r[0], r[1])
			require.NoError(t, err)
			hints := &storage.SelectHints{Start: r[0], End: r[1], DisableTrimming: whole}
			cs, ws, err := FromChunkSeriesSet(t.Context(), cq.Select(t.Context(), false, hints, m), 0)
			require.NoError(t, err)
			require.Empty(t, ws)
			requireNormal(t, cs)
			got, _ := content(t, cs.SeriesSet(r[0], r[1], nil))
			require.Equal(t, want, got)
			require.NoError(t, cq.Close())

			// And out again as chunks.
			again, _, err := FromChunkSeriesSet(t.Context(), cs.ChunkSeriesSet(r[0], r[1], nil), 0)
			require.NoError(t, err)
			require.Equal(t, all(t, cs), all(t, again))
			require.Equal(t, cs.NumChunks(), again.NumChunks())
			samples, _, err := FromSeriesSet(t.Context(), cs.SeriesSet(r[0], r[1], nil), 0)
			require.NoError(t, err)
			require.Equal(t, want, all(t, samples))
		}
	}
}

func TestFromStopsAtLimitAndCancellation(t *testing.T) {
	s := random(t, rand.New(rand.NewPCG(21, 1)), 20)
	_, _, err := FromSeriesSet(ctx, s.SeriesSet(0, 1e6, nil), 100)
	require.ErrorIs(t, err, ErrTooLarge)
	_, _, err = FromChunkSeriesSet(ctx, s.ChunkSeriesSet(0, 1e6, nil), 100)
	require.ErrorIs(t, err, ErrTooLarge)

	done, cancel := context.WithCancel(ctx)
	cancel()
	_, _, err = FromSeriesSet(done, s.SeriesSet(0, 1e6, nil), 0)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = FromChunkSeriesSet(done, s.ChunkSeriesSet(0, 1e6, nil), 0)
	require.ErrorIs(t, err, context.Canceled)
}

func TestFromPassesErrorsAndWarnings(t *testing.T) {
	boom := errors.New("boom")
	_, _, err := FromSeriesSet(ctx, storage.ErrSeriesSet(boom), 0)
	require.ErrorIs(t, err, boom)
	_, _, err = FromChunkSeriesSet(ctx, storage.ErrChunkSeriesSet(boom), 0)
	require.ErrorIs(t, err, boom)

	ws := annotations.New().Add(errors.New("careful"))
	s := random(t, rand.New(rand.NewPCG(22, 1)), 4)
	_, got, err := FromSeriesSet(ctx, s.SeriesSet(0, 1e6, ws), 0)
	require.NoError(t, err)
	require.Equal(t, ws, got)
	_, got, err = FromChunkSeriesSet(ctx, s.ChunkSeriesSet(0, 1e6, ws), 0)
	require.NoError(t, err)
	require.Equal(t, ws, got)
}

func TestFromSeriesSetRefusesDisorder(t *testing.T) {
	bad := &storage.SeriesEntry{Lset: name(0), SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
		return chunkenc.MockSeriesIterator(nil, []int64{1, 3, 2}, []float64{1, 2, 3})
	}}
	_, _, err := FromSeriesSet(ctx, storage.TestSeriesSet(bad), 0)
	require.ErrorContains(t, err, "time order")
	require.ErrorContains(t, err, name(0).String())
}

func TestCorruptChunksFailTheirReaders(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 1000, []byte{0, 9, 1, 2, 3}))
	s := finish(t, b)
	var ce *CorruptError
	_, _, err := FromSeriesSet(ctx, s.SeriesSet(0, 1000, nil), 0)
	require.ErrorAs(t, err, &ce)
	_, _, err = FromChunkSeriesSet(ctx, s.ChunkSeriesSet(0, 1000, nil), 0)
	require.NoError(t, err, "chunks pass undecoded")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Those of selectiontest that nearly every test uses.
type sample = selectiontest.Sample

var (
	current, drain     = selectiontest.Current, selectiontest.Drain
	encodings, withST  = selectiontest.Encodings, selectiontest.WithST
	encode, rising     = selectiontest.Encode, selectiontest.Rising
	timesBetween, name = selectiontest.TimesBetween, selectiontest.Name
)

// content returns the samples of a set by series, and the series' order.
// Series without samples are left out.
func content(t testing.TB, set storage.SeriesSet) (map[string][]sample, []string) {
	t.Helper()
	out := map[string][]sample{}
	var order []string
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		it = s.Iterator(it)
		if ss := drain(t, it); len(ss) > 0 {
			name := s.Labels().String()
			if _, twice := out[name]; twice {
				t.Fatalf("%s came twice", name)
			}
			out[name] = ss
			order = append(order, name)
		}
	}
	require.NoError(t, set.Err())
	return out, order
}

func all(t testing.TB, s *Selection) map[string][]sample {
	t.Helper()
	out, _ := content(t, s.SeriesSet(math.MinInt64, math.MaxInt64, nil))
	return out
}

// add adds a chunk with samples at times to the builder's current series.
func add(t testing.TB, b *Builder, e chunkenc.Encoding, times []int64, value func(int64) float64) {
	t.Helper()
	require.NoError(t, b.Chunk(e, times[0], times[len(times)-1], encode(t, e, times, value)))
}

func finish(t testing.TB, b *Builder) *Selection {
	t.Helper()
	s, err := b.Finish()
	require.NoError(t, err)
	requireNormal(t, s)
	return s
}

// requireNormal checks what a Selection promises.
func requireNormal(t testing.TB, s *Selection) {
	t.Helper()
	require.True(t, s.normal(), "series sorted and unique, chunks in order and disjoint")
	require.Len(t, s.first, s.NumSeries()+1)
	samples, chunks := int64(0), 0
	var encs uint32
	for i := range s.NumSeries() {
		for _, c := range s.Chunks(i) {
			chunks++
			samples += int64(c.Samples)
			encs |= 1 << c.Enc
			data := s.Bytes(c)
			if c.Off%slab.Align != 0 || len(data) != int(c.Len) || cap(data)-len(data) < slab.Pad || c.Samples != encoding.SampleCount(c.Enc, data) {
				t.Fatalf("chunk %+v with %d bytes and room for %d", c, len(data), cap(data))
			}
		}
	}
	require.Equal(t, chunks, s.NumChunks())
	require.Equal(t, samples, s.NumSamples())
	require.Equal(t, encs, s.encodings)
	var slabs int64
	for _, l := range s.slabs {
		slabs += int64(cap(l.Bytes()))
	}
	require.GreaterOrEqual(t, s.SizeBytes(), slabs)
}

// random makes a selection of n series with chunks of all encodings.
func random(t testing.TB, r *rand.Rand, n int) *Selection {
	b := NewBuilder(0)
	for i := range n {
		b.Series(name(i))
		ts := r.Int64N(5000)
		for range r.IntN(6) {
			var times []int64
			for range 1 + r.IntN(40) {
				times = append(times, ts)
				ts += 1 + r.Int64N(300)
			}
			add(t, b, encodings[r.IntN(len(encodings))], times, rising)
			if r.IntN(3) == 0 {
				ts += r.Int64N(20_000)
			}
		}
	}
	return finish(t, b)
}

// reference is all samples of series i from mint to maxt, read chunk by chunk.
func reference(t testing.TB, s *Selection, i int, mint, maxt int64) (out []sample) {
	for _, c := range s.Chunks(i) {
		chk, err := chunkenc.FromData(c.Enc, slices.Clone(s.Bytes(c)))
		require.NoError(t, err)
		for _, v := range drain(t, chk.Iterator(nil)) {
			if v.T >= mint && v.T <= maxt {
				out = append(out, v)
			}
		}
	}
	return out
}

var ctx = context.Background()
