package selection

import (
	"context"
	"math"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// TestNotes: a note is found once, goes to what Slice leaves whole, and to nothing
// else; the oldest make room.
func TestNotes(t *testing.T) {
	b := NewBuilder(0)
	b.Series(labels.FromStrings("a", "b"))
	for i := range int64(3) {
		require.NoError(t, b.Chunk(chunkenc.EncXOR, i*10, i*10+9, []byte{0, 1, 0}))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	found := 0
	find := func() int { found++; return found }
	type key int
	require.Equal(t, 1, Note(sel.Notes, key(0), find))
	require.Equal(t, 1, Note(sel.Slice(0, 100).Notes, key(0), find))
	require.Equal(t, 2, Note(sel.Slice(0, 5).Notes, key(0), find))
	for k := range maxNotes - 1 {
		Note(sel.Notes, key(k+1), find)
	}
	require.Equal(t, 1, Note(sel.Notes, key(0), find))
	Note(sel.Notes, key(maxNotes), find)
	before := found
	require.Equal(t, before+1, Note(sel.Notes, key(0), find))
	require.Len(t, sel.Notes.notes, maxNotes)
	require.NotNil(t, Empty().Notes)
}

// sized is a note of a size.
type sized int64

func (s sized) SizeBytes() int64 { return int64(s) }

// TestNotesSize: notes take memory as long as they are there, as much as they say,
// also from the account that they are counted in.
func TestNotesSize(t *testing.T) {
	n := Empty().Notes
	require.Zero(t, n.SizeBytes())
	type key int
	Note(n, key(0), func() bool { return true })
	require.EqualValues(t, noteBytes, n.SizeBytes())

	var first, second atomic.Int64
	n.CountIn(&first)
	require.EqualValues(t, noteBytes, first.Load())
	Note(n, key(1), func() sized { return 1000 })
	Note(n, key(1), func() sized { t.Fatal("it is there"); return 0 })
	require.EqualValues(t, 2*noteBytes+1000, n.SizeBytes())
	require.EqualValues(t, 2*noteBytes+1000, first.Load())

	n.CountIn(&second)
	require.Zero(t, first.Load())
	for k := range maxNotes {
		Note(n, key(2+k), func() bool { return true })
	}
	require.EqualValues(t, maxNotes*noteBytes, n.SizeBytes())
	require.EqualValues(t, maxNotes*noteBytes, second.Load())
	n.CountIn(nil)
	require.Zero(t, second.Load())
	require.EqualValues(t, maxNotes*noteBytes, n.SizeBytes())
}

// TestSeriesNotes: notes on the series alone go with them where a selection gets other
// chunks, but not where it gets other series.
func TestSeriesNotes(t *testing.T) {
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
	type key int
	noted := func(s *Selection) bool {
		found := true
		Note(s.Notes.Series, key(0), func() int { found = false; return 1 })
		return found
	}
	kept := build(10, 0, 9).WithMemos(1000)
	require.False(t, noted(kept))
	Note(kept.Notes, key(0), func() bool { return true })
	require.EqualValues(t, 2*noteBytes, kept.Notes.SizeBytes())
	var account atomic.Int64
	kept.Notes.CountIn(&account)
	require.EqualValues(t, 2*noteBytes, account.Load())

	for _, s := range []*Selection{
		mustJoin(t, kept, build(10, 9, 1)), mustJoin(t, kept, build(4, 9, 1)),
		kept.WithMemos(2000), kept.Compact(1), kept.Slice(0, 10_000), mustJoin(t, kept, build(10, 8, 2)).flat(),
	} {
		require.True(t, noted(s))
	}
	cut, err := kept.Cut(ctx, 0, 5000)
	require.NoError(t, err)
	for _, s := range []*Selection{
		mustJoin(t, kept, build(11, 9, 1)), kept.Filter(func(labels.Labels) bool { return true }), kept.Slice(0, 1000), cut,
		mustJoin(t, kept, build(10, 9, 9)),
	} {
		require.False(t, noted(s))
	}

	// The memory of those that are shared is counted once, wherever they are made.
	joined := mustJoin(t, kept, build(10, 9, 1))
	Note(joined.Notes.Series, key(1), func() bool { return true })
	require.EqualValues(t, 3*noteBytes, account.Load())
	kept.Notes.CountIn(nil)
	joined.Notes.CountIn(&account)
	require.EqualValues(t, 2*noteBytes, account.Load())
}

// TestMemo: memos follow their series from a kept selection to those made of it.
func TestMemo(t *testing.T) {
	of := func(s *Selection) map[string]*Memo {
		out := map[string]*Memo{}
		for i := range s.NumSeries() {
			out[s.Labels(i).Get("a")] = s.Memo(i)
		}
		return out
	}
	build := func(names ...string) *Selection {
		b := NewBuilder(0)
		for _, n := range names {
			b.Series(labels.FromStrings("a", n))
			for _, at := range []int64{1000, 2000} {
				require.NoError(t, b.Chunk(chunkenc.EncXOR, at, at+1, encode(t, chunkenc.EncXOR, []int64{at, at + 1}, rising)))
			}
		}
		s, err := b.Finish()
		require.NoError(t, err)
		return s
	}
	plain := build("x", "y")
	require.Nil(t, plain.Memo(0))
	kept := plain.WithMemos(1500)
	require.Equal(t, int64(1500), kept.KeptUntil)
	require.Greater(t, kept.SizeBytes(), plain.SizeBytes())
	memos := of(kept)
	require.NotNil(t, memos["x"])
	require.NotSame(t, memos["x"], memos["y"])
	require.Same(t, kept, kept.WithMemos(1500), "nothing to do")

	require.Equal(t, memos, of(kept.Slice(0, 1500)))
	cut, err := kept.Cut(context.Background(), math.MinInt64, 2000)
	require.NoError(t, err)
	require.Equal(t, memos, of(cut))
	require.Equal(t, memos, of(kept.Compact(0.5)))

	joined, err := Join(ctx, kept, build("w", "y", "z"))
	require.NoError(t, err)
	require.Equal(t, int64(1500), joined.KeptUntil)
	require.Equal(t, map[string]*Memo{"w": nil, "x": memos["x"], "y": memos["y"], "z": nil}, of(joined))

	again := joined.WithMemos(math.MaxInt64)
	after := of(again)
	require.Same(t, memos["x"], after["x"])
	require.NotNil(t, after["w"])
	require.Nil(t, joined.Memo(0), "the other is left as it was")

	// Chunks that are shared are the same, wherever they are looked at.
	require.Equal(t, kept.Origin(kept.Chunks(0)[1]), joined.Origin(joined.Chunks(1)[1]))
	require.NotEqual(t, kept.Origin(kept.Chunks(0)[1]), kept.Origin(kept.Chunks(1)[1]))
}

// TestSharesChunks: chunks are the same where their bytes are, wherever these lie.
func TestSharesChunks(t *testing.T) {
	build := func(values ...float64) *Selection {
		b := NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		for i, v := range values {
			require.NoError(t, b.Floats([]int64{int64(1000 * i), int64(1000*i + 900)}, []float64{v, v}))
		}
		s, err := b.Finish()
		require.NoError(t, err)
		return s
	}
	s := build(1, 2, 3)
	for name, c := range map[string]struct {
		other *Selection
		same  bool
	}{
		"itself":           {s, true},
		"chunks elsewhere": {build(1, 2, 3), true},
		"another value":    {build(1, 5, 3), false},
		"fewer chunks":     {build(1, 2), false},
		"outside":          {build(1, 2, 5), true},
	} {
		to := int64(2999)
		if name == "outside" {
			to = 1999
		}
		require.Equal(t, c.same, s.SharesChunks(c.other, 0, to), name)
	}
}
