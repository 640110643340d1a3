package cache

import (
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// clocked is a cache whose clock a test moves.
func clocked(t *testing.T, up Upstream, o Options) (c *Cache, clock *int64) {
	t.Helper()
	clock = new(int64)
	*clock = now
	o.HostBytes, o.Tile, o.Now = DefaultHostBytes, testTile, func() time.Time { return time.UnixMilli(*clock) }
	return New(up, o), clock
}

func TestDrop(t *testing.T) {
	ms := func(s string) []*labels.Matcher { return matchersIn(t, s) }
	for _, test := range []struct {
		name       string
		mint, maxt int64
		selectors  [][]*labels.Matcher
		want       Dropped
		asked      []request // by a query for everything of m, after that
	}{
		{"all", math.MinInt64, math.MaxInt64, nil, Dropped{2, 10}, []request{{80 * hour, 90*hour - 1}}},
		{"selector", math.MinInt64, math.MaxInt64, [][]*labels.Matcher{ms(`{job="x",__name__="m"}`)}, Dropped{1, 5}, []request{{80 * hour, 90*hour - 1}}},
		{"other selector", math.MinInt64, math.MaxInt64, [][]*labels.Matcher{ms(`other`), ms(`third`)}, Dropped{1, 5}, nil},
		{"no selector", math.MinInt64, math.MaxInt64, [][]*labels.Matcher{ms(`third`)}, Dropped{}, nil},
		{"middle", 83 * hour, 84 * hour, nil, Dropped{2, 4}, []request{{82 * hour, 86*hour - 1}}},
		{"edge", 81 * hour, 82*hour - 1, [][]*labels.Matcher{ms(`m`)}, Dropped{1, 1}, []request{{80 * hour, 82*hour - 1}}},
		{"elsewhere", 10 * hour, 20 * hour, nil, Dropped{}, nil},
		{"nothing", 20 * hour, 10 * hour, nil, Dropped{}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			series := 2
			up := having(func(mint, maxt int64) *selection.Selection { return minutely(t, series, mint, maxt) })
			c, _ := clocked(t, up, Options{})
			query(t, c, 80*hour, 90*hour-1, "m")
			query(t, c, 80*hour, 90*hour-1, "other")
			up.asked()
			got, err := c.Drop(test.mint, test.maxt, test.selectors...)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			require.Equal(t, test.want.Tiles, c.totals().Dropped)
			require.Equal(t, 10-test.want.Tiles, c.Stats().Tiles)

			// The second series is gone upstream, and here where it was dropped.
			series = 1
			answer := query(t, c, 80*hour, 90*hour-1, "m")
			require.Equal(t, test.asked, up.asked())
			gone := 0
			for _, r := range test.asked {
				gone += int((r.maxt + 1 - r.mint) / 60_000)
			}
			require.Len(t, answer[`{__name__="m", i="000001"}`], 600-gone)
			require.Len(t, answer[`{__name__="m", i="000000"}`], 600)
		})
	}
}

const minute = hour / 60 // ms

// histograms is a selection of one series of them.
func histograms(t *testing.T) *selection.Selection {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	require.NoError(t, b.Chunk(chunkenc.EncHistogram, 4000, 4000, selectiontest.Encode(t, chunkenc.EncHistogram, []int64{4000}, selectiontest.Rising)))
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// A fetch is told what to expect where that is certain to be samples alone.
func TestExpected(t *testing.T) {
	answer := func(mint, maxt int64) *selection.Selection { return minutely(t, 20, mint, maxt) }
	up := having(func(mint, maxt int64) *selection.Selection { return answer(mint, maxt) })
	c := New(up, Options{HostBytes: DefaultHostBytes, Recheck: 5 * time.Minute, Now: at(now)})
	query(t, c, now-hour, now, "m")
	landed(t, c)
	require.Empty(t, up.expected.Series)
	require.Zero(t, up.expected.Samples)
	query(t, c, now-hour, now, "m")
	require.Len(t, up.expected.Series, 20)
	require.Equal(t, 2, up.expected.Samples, "of a minute, one each minute")
	noted := up.expected.NoSamples
	require.NotNil(t, noted)
	query(t, c, now-hour, now+hour, "m")
	require.Same(t, noted, up.expected.NoSamples, "it is the entry's")
	require.Equal(t, 2, up.expected.Samples, "there is nothing after now")

	require.False(t, up.expected.Signed(0), "times are not negative")

	answer = func(int64, int64) *selection.Selection { return histograms(t) }
	query(t, c, 1000, now, "h")
	landed(t, c)
	query(t, c, 1000, now, "h")
	require.Len(t, up.expected.Series, 1)
	require.Zero(t, up.expected.Samples)
	require.NotSame(t, noted, up.expected.NoSamples, "of another selector")
}

// What is young may be kept scrape by scrape, in chunks of a sample each: a fetch is still told how many
// samples to expect.
func TestExpectedOfSingleSamples(t *testing.T) {
	up := having(func(mint, maxt int64) *selection.Selection { return minutely(t, 20, mint, maxt) })
	c, clock := clocked(t, up, Options{Recheck: 5 * time.Minute})
	for i := range 4 {
		query(t, c, *clock-hour, *clock, "m")
		landed(t, c) // what is young is kept after its query is answered
		if i > 0 {
			require.Positive(t, up.expected.Samples)
			require.LessOrEqual(t, up.expected.Samples, 4)
		}
		*clock += minute
	}
	sel := c.entries[matching.Key([]*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")})].sel
	last := sel.Chunks(0)[len(sel.Chunks(0))-1]
	require.EqualValues(t, 1, last.Samples)
}

// belated has samples later than their time.
type belated struct {
	*fake
	complete int64
}

func (b *belated) Complete() int64 { return b.complete }

// What an upstream may still get is fetched for every query, and kept once the upstream has it.
func TestBelated(t *testing.T) {
	up := &belated{complete: 82*hour + 30*minute}
	up.fake = having(func(mint, maxt int64) *selection.Selection { return minutely(t, 1, mint, min(maxt, up.complete-1)) })
	c, clock := clocked(t, up, Options{})
	asks := func(mint, maxt int64) []request {
		up.asked()
		got := query(t, c, mint, maxt, "m")
		requireMinutely(t, got, 1, mint, min(maxt, up.complete-1))
		return up.asked()
	}
	require.Equal(t, []request{{80 * hour, 86*hour - 1}}, asks(80*hour, 86*hour-1))
	require.Equal(t, []request{{82 * hour, 86*hour - 1}}, asks(80*hour, 86*hour-1))
	require.Empty(t, asks(80*hour, 82*hour-1))
	up.complete = 84 * hour
	require.Equal(t, []request{{82 * hour, 86*hour - 1}}, asks(80*hour, 86*hour-1))
	require.Equal(t, []request{{84 * hour, 86*hour - 1}}, asks(80*hour, 86*hour-1))
	up.complete = math.MaxInt64
	*clock += hour
	require.Equal(t, []request{{84 * hour, 86*hour - 1}}, asks(80*hour, 86*hour-1))
	require.Empty(t, asks(80*hour, 86*hour-1))
}
