package tile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCoverage compares coverage with a table of the time each moment was
// fetched.
func TestCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 30
		var model [end]int64 // 0 stands for not covered
		var cs Coverage
		in := func() Span {
			from := rapid.Int64Range(0, end).Draw(t, "from")
			return Span{from, rapid.Int64Range(from, end).Draw(t, "to")}
		}
		check := func(cs Coverage, want func(i, at int64) bool) {
			for k, c := range cs {
				if c.Empty() || k > 0 && (cs[k-1].To > c.From || cs[k-1].To == c.From && cs[k-1].At == c.At) {
					t.Fatalf("%v is not in order or not joined", cs)
				}
			}
			var got [end]int64
			for _, c := range cs {
				for i := c.From; i < c.To; i++ {
					got[i] = c.At
				}
			}
			for i, at := range model {
				if !want(int64(i), at) {
					at = 0
				}
				if got[i] != at {
					t.Fatalf("%v has %d at %d, want %d", cs, got[i], i, at)
				}
			}
		}
		any := func(int64, int64) bool { return true }
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			s, at := in(), rapid.Int64Range(1, 4).Draw(t, "at")
			if rapid.Bool().Draw(t, "with") {
				cs = cs.With(s, at)
				for i := s.From; i < s.To; i++ {
					model[i] = at
				}
			} else {
				cs = cs.Without(s)
				for i := s.From; i < s.To; i++ {
					model[i] = 0
				}
			}
			check(cs, any)
			w := in()
			check(cs.Within(w).Since(at), func(i, a int64) bool { return a >= at && i >= w.From && i < w.To })
			var since Coverage
			for i, a := range model {
				if a >= at {
					since = since.With(Span{int64(i), int64(i) + 1}, 0)
				}
			}
			if got := cs.Since(at).All(); fmt.Sprint(got) != fmt.Sprint(since) {
				t.Fatalf("%v since %d is %v, want %v", cs, at, got, since)
			}
		}
	})
}

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

// TestSpans compares what is covered with a set of integers.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 40
	for range 2000 {
		var ss Coverage
		var set [n]bool
		for range r.IntN(12) {
			s := Span{r.Int64N(n), r.Int64N(n)}
			before := append(Coverage(nil), ss...)
			var got Coverage
			add := r.IntN(3) > 0
			if add {
				got = ss.With(s, 0)
			} else {
				got = ss.Without(s)
			}
			require.Equal(t, before, append(Coverage(nil), ss...), "changed in place")
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

func (cs Coverage) has(t int64) bool {
	for _, s := range cs {
		if s.From <= t && t < s.To {
			return true
		}
	}
	return false
}

func TestUsedAgain(t *testing.T) {
	now := 1000 * HalfLife
	for _, test := range []struct {
		worth int64
		want  float64 // half-lives after now
	}{
		{math.MinInt64, 0},
		{now - 100*HalfLife, 0},
		{now - 2*HalfLife, math.Log2(1.25)},
		{now, 1},
		{now + HalfLife, math.Log2(3)},
		{now + 5*HalfLife, 5}, // no more to gain
		{now + 100*HalfLife, 100},
	} {
		got := float64(UsedAgain(test.worth, now)-now) / float64(HalfLife)
		require.InDelta(t, test.want, got, 1./16, "%d", test.worth)
		require.LessOrEqual(t, got, test.want)
	}
	worth := int64(math.MinInt64)
	for range 1000 {
		worth = UsedAgain(worth, now)
	}
	require.InDelta(t, 4.5, float64(worth-now)/float64(HalfLife), 0.5)
}

func TestUsed(t *testing.T) {
	now := 1000 * HalfLife
	cs := Coverage(nil).Used(Span{0, 10}, now)
	require.Equal(t, Coverage{{Span: Span{0, 10}, At: now}}, cs)
	cs = cs.Used(Span{5, 15}, now)
	require.Equal(t, Coverage(nil).With(Span{0, 5}, now).With(Span{5, 10}, now+HalfLife).With(Span{10, 15}, now), cs)
	require.Equal(t, now+HalfLife, cs.WorthOf(Span{0, 6}))
	require.Equal(t, int64(math.MinInt64), cs.WorthOf(Span{15, 20}))
	later := now + forgotten + HalfLife/2
	require.Equal(t, Coverage(nil).With(Span{0, 1}, later-later%worthStep).With(Span{5, 10}, now+HalfLife), cs.Used(Span{0, 1}, later))
}

// Moment by moment, worths are what a plain account of uses says.
func TestWorthsOfMoments(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 200 {
		var cs Coverage
		var plain [60]int64
		for i := range plain {
			plain[i] = math.MinInt64
		}
		now := 1000 * HalfLife
		for range 20 {
			now += r.Int64N(HalfLife)
			if r.IntN(20) == 0 {
				now += forgotten
			}
			from := r.Int64N(60)
			s := Span{from, from + r.Int64N(60-from+1)}
			cs = cs.Used(s, now)
			for i := range plain {
				if plain[i] < now-forgotten {
					plain[i] = math.MinInt64
				}
				if int64(i) >= s.From && int64(i) < s.To {
					plain[i] = UsedAgain(plain[i], now)
				}
			}
			in := cs.WorthIn(Coverage(nil).With(Span{0, 25}, 0).With(Span{30, 60}, 0))
			for k := range cs {
				require.False(t, cs[k].Empty() || k > 0 && (cs[k].From < cs[k-1].To || cs[k].From == cs[k-1].To && cs[k].At == cs[k-1].At), "%v", cs)
			}
			for i := range plain {
				require.Equal(t, plain[i], cs.WorthOf(Span{int64(i), int64(i) + 1}), "%d of %v", i, cs)
				if i < 25 || i >= 30 {
					require.Equal(t, plain[i], in.WorthOf(Span{int64(i), int64(i) + 1}))
				}
			}
			require.Equal(t, int64(55), in.All()[0].To-in.All()[0].From+in.All()[1].To-in.All()[1].From)
		}
	}
}
