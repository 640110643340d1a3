package selection

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// drawPart makes a selection of some of n series, each with a few chunks from about
// start on. overlap says that they may begin before that.
func drawPart(t testing.TB, r *rand.Rand, n, most int, start int64, overlap bool, encodings []chunkenc.Encoding) *Selection {
	b := NewBuilder(0)
	for i := range n {
		if r.IntN(4) == 0 {
			continue
		}
		b.Series(name(i))
		ts := start + r.Int64N(500)
		if overlap && r.IntN(2) == 0 {
			ts -= r.Int64N(8000)
		}
		for range r.IntN(most + 1) {
			var times []int64
			for range 1 + r.IntN(9) {
				times = append(times, ts)
				ts += 1 + r.Int64N(300)
			}
			add(t, b, encodings[r.IntN(len(encodings))], times, rising)
		}
	}
	return finish(t, b)
}

// byUnion is the union of two parts in one table.
func byUnion(t testing.TB, a, b *Selection) *Selection {
	t.Helper()
	s, err := union(ctx, present([]*Selection{a, b}), max(a.kept, b.kept), separate)
	require.NoError(t, err)
	return s
}

// requireSame checks that two selections have the same chunks and say the same of
// themselves.
func requireSame(t testing.TB, want, got *Selection) {
	t.Helper()
	requireNormal(t, got)
	require.Equal(t, want.Series(), got.Series())
	for i := range want.NumSeries() {
		a, b := want.Chunks(i), got.Chunks(i)
		require.Len(t, b, len(a))
		for k := range a {
			require.Equal(t, want.Bytes(a[k]), got.Bytes(b[k]))
			require.Equal(t, [2]int64{a[k].MinT, a[k].MaxT}, [2]int64{b[k].MinT, b[k].MaxT})
		}
		require.True(t, want.Memo(i) == got.Memo(i), "the memo of series %d", i)
	}
	require.Equal(t, want.NumChunks(), got.NumChunks())
	require.Equal(t, want.NumSamples(), got.NumSamples())
	require.Equal(t, want.PayloadBytes(), got.PayloadBytes())
	require.Equal(t, want.encodings, got.encodings)
	require.Equal(t, want.KeptUntil(), got.KeptUntil())
}

// TestExtend compares what is joined by putting chunks behind a table with what is
// joined in one table, and what is made of either.
func TestExtend(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 4))
	extended := 0
	for round := range 500 {
		use := encodings
		if round%2 == 0 {
			e := r.IntN(len(encodings))
			use = encodings[e : e+1]
		}
		base := drawPart(t, r, 12, 8, 0, false, use)
		if r.IntN(2) == 0 {
			base = base.WithMemos(r.Int64N(9000))
		}
		tail := drawPart(t, r, 14, 2, 15_000, r.IntN(2) == 0, use)
		if r.IntN(3) == 0 {
			tail = mustJoin(t, tail, base.Slice(10_000, math.MaxInt64)) // chunks that both have
		}
		if tail.NumSeries() == 0 || base.NumSeries() == 0 {
			continue
		}
		got, err := extend(ctx, base, tail, max(base.kept, tail.kept))
		require.NoError(t, err)
		if got == nil {
			continue
		}
		extended++
		want := byUnion(t, base, tail)
		requireSame(t, want, got)
		requireSame(t, want, mustJoin(t, base, tail))
		requireSame(t, want, got.flat())
		requireNormal(t, base)
		require.Equal(t, got.flat().tableBytes()-got.tableBytes(), got.flat().SizeBytes()-got.SizeBytes())

		mint := r.Int64N(20_000)
		maxt := mint + r.Int64N(8000)
		for i := range want.NumSeries() {
			require.Len(t, got.Overlapping(i, mint, maxt), len(want.Overlapping(i, mint, maxt)))
		}
		require.Equal(t, all(t, want), all(t, got))
		requireSame(t, want.Slice(mint, maxt), got.Slice(mint, maxt))
		requireSame(t, want.Slice(0, math.MaxInt64), got.Slice(0, math.MaxInt64))
		a, err := want.Cut(ctx, mint, maxt)
		require.NoError(t, err)
		b, err := got.Cut(ctx, mint, maxt)
		require.NoError(t, err)
		requireSame(t, a, b)
		some := func(l labels.Labels) bool { return l.Get("i") > "0005" }
		requireSame(t, want.Filter(some), got.Filter(some))
		requireSame(t, want, got.Compact(0.9))
		kept := got.WithMemos(16_000)
		require.Nil(t, kept.behind, "what is kept is one table")
		require.Equal(t, want.NumSamples(), kept.NumSamples())

		more := drawPart(t, r, 12, 1, 20_000, r.IntN(2) == 0, use)
		if more.NumSeries() > 0 {
			requireSame(t, byUnion(t, want, more), mustJoin(t, got, more))
			requireSame(t, byUnion(t, more, want), mustJoin(t, more, got))
			x, err := Merge(ctx, more, want)
			require.NoError(t, err)
			y, err := Merge(ctx, more, got)
			require.NoError(t, err)
			requireSame(t, x, y)
		}
	}
	require.Greater(t, extended, 250)
}

// TestExtendSharesTheTable: what comes behind a large selection does not make its table
// be copied.
func TestExtendSharesTheTable(t *testing.T) {
	build := func(series, from, chunks int) *Selection {
		b := NewBuilder(0)
		for i := range series {
			b.Series(name(i))
			for k := range chunks {
				add(t, b, chunkenc.EncXOR, timesBetween(int64(from+k)*1000, int64(from+k)*1000+900, 100), rising)
			}
		}
		return finish(t, b)
	}
	base := build(100, 0, 20).WithMemos(20_000)
	for _, tail := range []*Selection{build(100, 20, 1), build(101, 20, 2), build(50, 19, 2)} {
		s := mustJoin(t, base, tail)
		require.Same(t, &base.chunks[0], &s.chunks[0])
		require.Equal(t, base.Origin(base.Chunks(0)[3]), s.Origin(s.Chunks(0)[3]))
		require.Same(t, &base.chunks[3], &s.Overlapping(0, 3000, 4999)[0])
		require.Same(t, base.Memo(7), s.Memo(7))
	}
	joined := mustJoin(t, base, build(100, 20, 1))
	require.Same(t, &base.Series()[0], &joined.Series()[0])
	require.NotNil(t, mustJoin(t, base, build(101, 20, 2)).Memo(99))
	require.Nil(t, mustJoin(t, base, build(101, 20, 2)).Memo(100))
	require.Nil(t, mustJoin(t, base, build(100, 20, 11)).behind, "as much again is not put behind")
}
