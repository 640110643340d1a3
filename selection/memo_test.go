package selection

import (
	"context"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

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
	require.Equal(t, int64(1500), kept.KeptUntil())
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
	require.Equal(t, int64(1500), joined.KeptUntil())
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
