package tile

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloor(t *testing.T) {
	for _, c := range []struct{ t, tile, want int64 }{
		{0, 10, 0}, {9, 10, 0}, {10, 10, 10}, {-1, 10, -10}, {-10, 10, -10}, {-11, 10, -20},
	} {
		require.Equal(t, c.want, Floor(c.t, c.tile), "floor(%d, %d)", c.t, c.tile)
	}
	require.Equal(t, Span{-10, 20}, Span{-1, 11}.Widen(10))
	require.Equal(t, Span{0, 10}, Span{0, 10}.Widen(10))
	require.True(t, Span{5, 5}.Widen(10).Empty())
	s := Span{MinTime, MaxTime + 1}.Widen(7_200_000)
	require.Less(t, s.From, s.To)
}

// TestSpans compares spans with a set of integers.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 40
	for range 2000 {
		var ss Spans
		var set [n]bool
		for range r.IntN(12) {
			s := Span{r.Int64N(n), r.Int64N(n)}
			before := append(Spans(nil), ss...)
			var got Spans
			add := r.IntN(3) > 0
			if add {
				got = ss.With(s)
			} else {
				got = ss.Without(s)
			}
			require.Equal(t, before, append(Spans(nil), ss...), "changed in place")
			ss = got
			for i := s.From; i < s.To; i++ {
				set[i] = add
			}
		}
		for i := range ss {
			require.False(t, ss[i].Empty())
			if i > 0 {
				require.Less(t, ss[i-1].To, ss[i].From)
			}
		}
		ask := Span{r.Int64N(n), r.Int64N(n)}
		missing := ss.Missing(ask)
		for i := range int64(n) {
			require.Equal(t, set[i], ss.has(i), "at %d of %v", i, ss)
			require.Equal(t, !set[i] && ask.From <= i && i < ask.To, missing.has(i), "%d missing in %v of %v", i, ask, ss)
		}
	}
}

func (ss Spans) has(t int64) bool {
	for _, s := range ss {
		if s.From <= t && t < s.To {
			return true
		}
	}
	return false
}
