package cache

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// clocked is a cache whose clock a test moves.
func clocked(t *testing.T, up Upstream, o Options) (c *Cache, clock *int64) {
	t.Helper()
	clock = new(int64)
	*clock = now
	o.HostBytes, o.Tile, o.Now = DefaultHostBytes, testTile, func() time.Time { return time.UnixMilli(*clock) }
	return New(up, o), clock
}

func sorted(rs []request) []request {
	slices.SortFunc(rs, func(a, b request) int { return int(a.mint - b.mint) })
	return rs
}

func TestDrop(t *testing.T) {
	ms := func(s string) []*labels.Matcher {
		m, err := parser.NewParser(parser.Options{}).ParseMetricSelector(s)
		require.NoError(t, err)
		return m
	}
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
			up := &fake{}
			up.fetch = func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
				return minutely(t, series, mint, maxt), nil, nil
			}
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

// What is being fetched when it is dropped is neither kept nor shared.
func TestDropDuringAFetch(t *testing.T) {
	calls, gates := make(chan int, 2), []chan struct{}{make(chan struct{}), make(chan struct{})}
	calls <- 0
	calls <- 1
	entered := make(chan struct{}, 2)
	up := &fake{}
	up.fetch = func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		call := <-calls
		entered <- struct{}{}
		<-gates[call]
		return minutely(t, 2-call, mint, maxt), nil, nil // the second series is deleted meanwhile
	}
	c, _ := clocked(t, up, Options{})
	var done [2]chan error
	for call := range done {
		done[call] = make(chan error, 1)
		go func() {
			_, _, err := c.get(t.Context(), 80*hour, now, named("m"))
			done[call] <- err
		}()
		<-entered
		if call == 0 {
			_, err := c.Drop(85*hour, 86*hour)
			require.NoError(t, err)
		}
	}
	require.Zero(t, c.totals().Shared)
	for _, call := range []int{1, 0} {
		close(gates[call])
		require.NoError(t, <-done[call])
	}
	up.asked()
	requireMinutely(t, query(t, c, 80*hour, horizon-1, "m"), 1, 80*hour, horizon-1)
	require.Empty(t, up.asked(), "the second fetch was kept")
}
