package cache

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// At now, with the default tile and freshness, the horizon is at 100h.
const (
	now     = 100*hour + hour
	horizon = 100 * hour
)

func TestCoveredIsNotCopied(t *testing.T) {
	up := newMinutely(t, 3)
	c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now)})
	requireMinutely(t, query(t, c, 91*hour, now, "m"), 3, 91*hour, now)
	q, err := selection.Storage{Source: c}.Querier(91*hour, 95*hour)
	require.NoError(t, err)
	a, _, err := q.(selection.Querier).SelectChunks(t.Context(), nil, named("m")...)
	require.NoError(t, err)
	b, _, err := q.(selection.Querier).SelectChunks(t.Context(), nil, named("m")...)
	require.NoError(t, err)
	require.Same(t, &a.Chunks(0)[0], &b.Chunks(0)[0])
}

func TestHintsNarrowTheRange(t *testing.T) {
	up := newMinutely(t, 1)
	c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now)})
	q, err := selection.Storage{Source: c}.Querier(10*hour, 90*hour)
	require.NoError(t, err)
	got, _ := read(t, q.Select(t.Context(), false, &storage.SelectHints{Start: 20 * hour, End: 21 * hour}, named("m")...))
	requireMinutely(t, got, 1, 20*hour, 21*hour)
	require.Equal(t, []request{{20 * hour, 22*hour - 1}}, up.asked())
}

func TestSelectIsLazy(t *testing.T) {
	up := newMinutely(t, 1)
	c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now)})
	q, err := selection.Storage{Source: c}.Querier(10*hour, 11*hour)
	require.NoError(t, err)
	set := q.Select(t.Context(), false, nil, named("m")...)
	require.NoError(t, set.Err())
	require.Empty(t, set.Warnings())
	require.Empty(t, up.asked())
	require.True(t, set.Next())
	require.Len(t, up.asked(), 1)
}

func TestChunkQuerier(t *testing.T) {
	up := newMinutely(t, 2)
	c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now)})
	q, err := selection.Storage{Source: c}.ChunkQuerier(10*hour+hour/2, 12*hour)
	require.NoError(t, err)
	set := q.Select(t.Context(), true, nil, named("m")...)
	series := 0
	for set.Next() {
		series++
		it := set.At().Iterator(nil)
		var times []int64
		for it.Next() {
			m := it.At()
			times = append(times, m.MinTime)
			require.Equal(t, 60, m.Chunk.NumSamples())
		}
		require.NoError(t, it.Err())
		require.Equal(t, []int64{10 * hour, 11 * hour, 12 * hour}, times, "whole chunks, and only those that overlap")
	}
	require.NoError(t, set.Err())
	require.Equal(t, 2, series)
	require.IsType(t, (*selection.ChunkQuerier)(nil), q)
	_, ok := q.(selection.Querier)
	require.True(t, ok)
}

func TestExtremeRanges(t *testing.T) {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	require.NoError(t, b.Floats([]int64{-5, 7}, []float64{1, 2}))
	sel, err := b.Finish()
	require.NoError(t, err)
	up := having(func(int64, int64) *selection.Selection { return sel })
	for _, limit := range []int64{0, DefaultHostBytes} {
		c := New(up, Options{HostBytes: limit, Tile: testTile, Now: at(now)})
		for range 2 {
			got := query(t, c, math.MinInt64, math.MaxInt64, "m")
			require.Len(t, got, 1)
			require.Len(t, got[`{__name__="m"}`], 2)
			require.Len(t, query(t, c, -5, -5, "m")[`{__name__="m"}`], 1)
			require.Empty(t, query(t, c, 5, 4, "m"))
		}
		require.Less(t, c.totals().Misses, int64(1e7))
	}
}

func TestPanicInUpstreamIsAnError(t *testing.T) {
	up := &fake{fetch: func(context.Context, int64, int64) (*selection.Selection, annotations.Annotations, error) {
		panic("boom")
	}}
	c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now)})
	_, _, err := c.get(t.Context(), 0, hour, named("m"))
	require.ErrorContains(t, err, "boom")
	require.Zero(t, c.Stats().Entries)
	up.fetch = having(func(int64, int64) *selection.Selection { return nil }).fetch
	_, _, err = c.get(t.Context(), 0, hour, named("m"))
	require.ErrorContains(t, err, "neither")
}

func TestManyEmptySelectorsAreBounded(t *testing.T) {
	up := having(func(int64, int64) *selection.Selection { return selection.Empty() })
	c := New(up, Options{HostBytes: 100_000, Tile: testTile, Now: at(now)})
	for i := range 2000 {
		query(t, c, 10*hour, 20*hour, fmt.Sprintf("m%d", i))
	}
	require.LessOrEqual(t, c.Stats().Bytes, int64(100_000))
	require.Less(t, len(c.entries), mostIdle+200)
}

func TestAccounting(t *testing.T) {
	up := newMinutely(t, 3)
	c := New(up, Options{HostBytes: 300_000, Tile: testTile, Now: at(now)})
	for i := range int64(300) {
		name := fmt.Sprintf("m%d", i%7)
		query(t, c, i*hour/5, i*hour/5+3*hour, name)
		if i%50 == 0 {
			c.Clear()
			require.Zero(t, c.Stats().Bytes)
			require.Zero(t, c.Stats().Entries)
		}
		var sum int64
		n := 0
		for _, e := range c.entries {
			if e.sel != nil {
				sum += sizeOf(e.key, e.sel, e.covered)
				n++
			}
			require.Empty(t, e.flights)
		}
		require.Equal(t, sum, c.Stats().Bytes)
		require.Equal(t, n, c.Stats().Entries)
		require.LessOrEqual(t, sum, c.limit)
	}
}

// corruptWhile is an upstream whose chunks are corrupt as long as that is so.
func corruptWhile(t testing.TB, corrupt *bool) *fake {
	return having(func(mint, maxt int64) *selection.Selection {
		if !*corrupt {
			return minutely(t, 1, mint, maxt)
		}
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, mint, mint+1000, []byte{0, 9, 1, 2, 3}))
		s, err := b.Finish()
		require.NoError(t, err)
		return s
	})
}

func TestCorruptChunkIsFetchedAgain(t *testing.T) {
	corrupt := true
	up := corruptWhile(t, &corrupt)
	for _, r := range []request{{80 * hour, 84*hour - 1}, {80 * hour, now}} {
		c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now)})
		corrupt = true
		q, err := selection.Storage{Source: c}.Querier(r.mint, r.maxt)
		require.NoError(t, err)
		for range 2 { // fresh from the upstream, then kept
			up.asked()
			set := q.Select(t.Context(), false, nil, named("m")...)
			require.True(t, set.Next())
			require.Equal(t, 1, c.Stats().Entries)
			it := set.At().Iterator(nil)
			for it.Next() != chunkenc.ValNone {
			}
			var ce *selection.CorruptError
			require.ErrorAs(t, it.Err(), &ce)
			require.Zero(t, c.Stats().Entries)
			require.Len(t, up.asked(), 1)
		}
		corrupt = false
		requireMinutely(t, query(t, c, r.mint, r.maxt, "m"), 1, r.mint, r.maxt)
		require.EqualValues(t, 2, c.totals().Discards)
	}
}

func TestChunksAcrossTheHorizonAreCut(t *testing.T) {
	// One chunk an answer, whole, whatever was asked for; its last half hour,
	// younger than the horizon, differs from call to call.
	calls := 0.0
	up := &fake{fetch: func(context.Context, int64, int64) (*selection.Selection, annotations.Annotations, error) {
		calls++
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		times := selectiontest.TimesBetween(horizon-hour, horizon+hour/2-60_000, 60_000)
		value := func(ts int64) float64 { return map[bool]float64{true: calls}[ts >= horizon] }
		require.NoError(t, b.Chunk(chunkenc.EncXOR, times[0], times[len(times)-1], selectiontest.Encode(t, chunkenc.EncXOR, times, value)))
		s, err := b.Finish()
		return s, nil, err
	}}
	c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now)})
	for i := range 3 {
		got := query(t, c, horizon-hour, now, "m")[`{__name__="m"}`]
		require.Len(t, got, 90)
		for _, s := range got {
			want := 0.0
			if s.T >= horizon {
				want = float64(i + 1)
			}
			require.Equal(t, math.Float64bits(want), s.V)
		}
	}
	e := c.entries[matching.Key(named("m"))]
	require.EqualValues(t, 60, e.sel.NumSamples())
}

func TestLabels(t *testing.T) {
	c := New(newMinutely(t, 1), Options{})
	q, err := selection.Storage{Source: c}.Querier(0, 1)
	require.NoError(t, err)
	_, _, err = q.LabelNames(t.Context(), nil)
	require.ErrorIs(t, err, ErrNoLabels)
	_, _, err = q.LabelValues(t.Context(), "a", nil)
	require.ErrorIs(t, err, ErrNoLabels)

	c = New(labelled{newMinutely(t, 1)}, Options{})
	q, err = selection.Storage{Source: c}.Querier(3, 4)
	require.NoError(t, err)
	names, _, err := q.LabelNames(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"3", "4"}, names)
	values, _, err := q.LabelValues(t.Context(), "a", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, values)
}

type labelled struct{ *fake }

func (labelled) LabelValues(_ context.Context, _, _ int64, name string, _ *storage.LabelHints, _ ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return []string{name}, nil, nil
}

func (labelled) LabelNames(_ context.Context, mint, maxt int64, _ *storage.LabelHints, _ ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return []string{fmt.Sprint(mint), fmt.Sprint(maxt)}, nil, nil
}

func TestQueryStatsAndMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	up := newMinutely(t, 2)
	c := New(up, Options{HostBytes: DefaultHostBytes, Tile: testTile, Now: at(now), Registerer: reg})
	var cold, warm selection.Stats
	_, _, err := c.counted(t.Context(), &cold, 91*hour, now, named("m"))
	require.NoError(t, err)
	require.EqualValues(t, 0, cold.TilesHit.Load())
	require.EqualValues(t, 5, cold.TilesFetched.Load())
	require.EqualValues(t, 1, cold.Fetches.Load())
	require.Positive(t, cold.FetchedBytes.Load())
	require.Positive(t, cold.FetchNanos.Load())
	_, _, err = c.counted(t.Context(), &warm, 91*hour, 95*hour-1, named("m"))
	require.NoError(t, err)
	require.EqualValues(t, 3, warm.TilesHit.Load())
	require.Zero(t, warm.TilesFetched.Load()+warm.Fetches.Load()+warm.FetchedBytes.Load()+warm.FetchNanos.Load())

	s := c.totals()
	require.Equal(t, totals{Stats: Stats{Bytes: s.Bytes, Limit: DefaultHostBytes, Entries: 1, Tiles: 5}, Hits: 3, Misses: 5, Fetches: 1, Fetched: cold.FetchedBytes.Load()}, s)
	require.InEpsilon(t, 3./5*float64(cold.FetchedBytes.Load()), testutil.ToFloat64(c.metrics.hitBytes), 0.15, "about three of five tiles")
	c.Clear()
	require.Zero(t, c.Stats().Tiles)
	c.get(t.Context(), 91*hour, now, named("m"))
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP promwarp_cache_entries Selectors of which something is held.
# TYPE promwarp_cache_entries gauge
promwarp_cache_entries 1
# HELP promwarp_cache_tile_hits_total Tiles answered from memory.
# TYPE promwarp_cache_tile_hits_total counter
promwarp_cache_tile_hits_total 3
`), "promwarp_cache_entries", "promwarp_cache_tile_hits_total"))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// TestContents: what is kept of each selector is listed with its stretches, in memory and in files;
// after a restart what is in files alone.
func TestContents(t *testing.T) {
	path, up := t.TempDir(), newMinutely(t, 3)
	c := onDisk(t, up, path, Options{})
	query(t, c, 70*hour, 75*hour, "m")
	query(t, c, 80*hour, 82*hour, "m")
	query(t, c, 80*hour, 81*hour, "other")
	got := c.Contents(10, func(*selection.Selection) float64 { return 0.5 })
	require.Equal(t, []any{2, testTile.Milliseconds(), horizon}, []any{got.Count, got.Tile, got.Settled})
	require.Equal(t, c.Stats().Bytes, got.Bytes)
	require.Len(t, got.Selectors, 2)
	m := got.Selectors[0]
	require.Equal(t, "m", m.Text)
	require.Equal(t, 3, m.Series)
	require.Equal(t, [][2]int64{{70 * hour, 76 * hour}, {80 * hour, 84 * hour}}, m.Memory)
	require.EqualValues(t, 3*10*60, m.Samples)
	require.Positive(t, m.DeviceBytes)
	require.Less(t, m.DeviceBytes, m.Bytes)
	require.Equal(t, "other", got.Selectors[1].Text)
	require.Greater(t, m.Bytes, got.Selectors[1].Bytes)
	require.Len(t, c.Contents(1, nil).Selectors, 1)
	require.Equal(t, 2, c.Contents(1, nil).Count)
	require.NoError(t, c.Close())

	c = onDisk(t, up, path, Options{})
	got = c.Contents(10, nil)
	require.Equal(t, 2, got.Count)
	require.Equal(t, got.DiskBytes, got.Selectors[0].DiskBytes+got.Selectors[1].DiskBytes)
	require.Equal(t, m.Memory, got.Selectors[0].Disk)
	require.Zero(t, got.Selectors[0].Bytes)
	require.Nil(t, got.Selectors[0].Memory)
}

// TestSamplesSelected: what a query selects is counted in the statistics of its request.
func TestSamplesSelected(t *testing.T) {
	c := New(newMinutely(t, 3), Options{Tile: testTile, Now: at(now), HostBytes: DefaultHostBytes})
	for range 2 { // fetched, then from memory
		var qs selection.Stats
		q, err := selection.Storage{Source: c, Request: selection.Request{Stats: &qs}}.Querier(70*hour, 72*hour-1)
		require.NoError(t, err)
		_, _, err = q.(selection.Querier).SelectChunks(t.Context(), nil, named("m")...)
		require.NoError(t, err)
		require.EqualValues(t, 3*120, qs.Samples.Load())
		require.NoError(t, q.Close())
	}
}
