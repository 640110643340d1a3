package tile

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

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
			in := cs.WorthIn(Spans{{0, 25}, {30, 60}})
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
