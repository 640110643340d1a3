package cache

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

func TestFloor(t *testing.T) {
	for _, c := range []struct{ t, tile, want int64 }{
		{0, 10, 0}, {9, 10, 0}, {10, 10, 10}, {-1, 10, -10}, {-10, 10, -10}, {-11, 10, -20},
	} {
		require.Equal(t, c.want, floor(c.t, c.tile), "floor(%d, %d)", c.t, c.tile)
	}
	require.Equal(t, span{-10, 20}, span{-1, 11}.widen(10))
	require.Equal(t, span{0, 10}, span{0, 10}.widen(10))
	require.True(t, span{5, 5}.widen(10).empty())
	s := span{minTime, maxTime + 1}.widen(7_200_000)
	require.Less(t, s.from, s.to)
}

// TestSpans compares spans with a set of integers.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 40
	for range 2000 {
		var ss spans
		var set [n]bool
		for range r.IntN(12) {
			s := span{r.Int64N(n), r.Int64N(n)}
			before := append(spans(nil), ss...)
			var got spans
			add := r.IntN(3) > 0
			if add {
				got = ss.with(s)
			} else {
				got = ss.without(s)
			}
			require.Equal(t, before, append(spans(nil), ss...), "changed in place")
			ss = got
			for i := s.from; i < s.to; i++ {
				set[i] = add
			}
		}
		for i := range ss {
			require.False(t, ss[i].empty())
			if i > 0 {
				require.Less(t, ss[i-1].to, ss[i].from)
			}
		}
		ask := span{r.Int64N(n), r.Int64N(n)}
		missing := ss.missing(ask)
		for i := range int64(n) {
			require.Equal(t, set[i], ss.has(i), "at %d of %v", i, ss)
			require.Equal(t, !set[i] && ask.from <= i && i < ask.to, missing.has(i), "%d missing in %v of %v", i, ask, ss)
		}
	}
}

func (ss spans) has(t int64) bool {
	for _, s := range ss {
		if s.from <= t && t < s.to {
			return true
		}
	}
	return false
}

func TestSelectorKey(t *testing.T) {
	eq := func(n, v string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, n, v) }
	re := func(n, v string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchRegexp, n, v) }
	key := func(ms ...*labels.Matcher) string { return selectorKey(ms) }

	require.Equal(t, key(eq("a", "1"), re("b", "2")), key(re("b", "2"), eq("a", "1")))
	require.Equal(t, key(eq("a", "1")), key(eq("a", "1"), eq("a", "1")))
	different := []string{
		key(), key(eq("a", "1")), key(re("a", "1")), key(eq("a", "")), key(eq("", "a")), key(eq("a1", "")), key(eq("", "a1")),
		key(eq("a", "1"), eq("b", "2")), key(eq("a", "1b"), eq("b", "2")), key(eq("a", "1\x00\x01b\x012")),
		key(eq("a", "2"), eq("b", "1")), key(eq("a", "1"), eq("a", "2")),
	}
	for i, a := range different {
		for _, b := range different[:i] {
			require.NotEqual(t, a, b)
		}
	}
	ms := []*labels.Matcher{eq("b", "2"), eq("a", "1")}
	selectorKey(ms)
	require.Equal(t, "b", ms[0].Name, "the caller's matchers are left as they are")
}
