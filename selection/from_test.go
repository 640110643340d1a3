package selection

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

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
