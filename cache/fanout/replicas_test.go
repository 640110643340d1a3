package fanout

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// scraper is a replica with one series: of a value that tells whose it is, every second from an offset on.
type scraper struct {
	value  float64
	offset int64
	down   [2]int64 // ms, both included: without samples
	err    error
	away   error
	asked  int
}

func (s *scraper) Fetch(context.Context, int64, int64, []*labels.Matcher, selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	s.asked++
	if s.err != nil {
		return nil, nil, s.err
	}
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	times := slices.DeleteFunc(selectiontest.TimesBetween(s.offset, 60_000, 1000), func(t int64) bool { return t >= s.down[0] && t <= s.down[1] && s.down[1] > 0 })
	if err := b.Floats(times, slices.Repeat([]float64{s.value}, len(times))); err != nil {
		return nil, nil, err
	}
	sel, err := b.Finish()
	return sel, nil, err
}

func pairOf(reg prometheus.Registerer, penalty bool, scrapers ...*scraper) *Replicas {
	names := []string{"a", "b"}
	var all []Upstream
	for i, s := range scrapers {
		all = append(all, Upstream{
			Name: names[i], Cache: cache.New(s, cache.Options{HostBytes: 1 << 20}),
			Away: func() error { return s.away },
		})
	}
	return NewReplicas(reg, penalty, all...)
}

// minute are the values of m in the first minute, by its samples' times in ms.
func minute(t *testing.T, of storage.Queryable, function string) (times []int64, values map[float64]int, ws annotations.Annotations, err error) {
	t.Helper()
	q, err := of.Querier(0, 60_000)
	require.NoError(t, err)
	defer q.Close()
	m := labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")
	set := q.Select(t.Context(), true, &storage.SelectHints{Start: 0, End: 60_000, Func: function}, m)
	values = map[float64]int{}
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			at, v := it.At()
			times = append(times, at)
			values[v]++
		}
		require.NoError(t, it.Err())
	}
	return times, values, set.Warnings(), set.Err()
}

func TestFailover(t *testing.T) {
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		a, b     scraper
		want     map[float64]int // samples of each
		warnings []string
		asked    [2]int
	}{
		"one is read":   {want: map[float64]int{1: 61}, asked: [2]int{1, 0}},
		"it fails":      {a: scraper{err: gone}, want: map[float64]int{2: 60}, asked: [2]int{1, 1}},
		"it is away":    {a: scraper{away: gone}, want: map[float64]int{2: 60}, asked: [2]int{0, 1}},
		"it has a gap":  {a: scraper{down: [2]int64{20_000, 39_000}}, want: map[float64]int{1: 41, 2: 21}, asked: [2]int{1, 1}},
		"both have one": {a: scraper{down: [2]int64{20_000, 39_000}}, b: scraper{down: [2]int64{10_000, 50_000}}, want: map[float64]int{1: 41}, asked: [2]int{1, 1}},
		"the gaps are not the same": {
			a: scraper{down: [2]int64{20_000, 39_000}}, b: scraper{down: [2]int64{25_000, 50_000}}, want: map[float64]int{1: 41, 2: 6}, asked: [2]int{1, 1},
		},
		"the other fails in a gap": {
			a: scraper{down: [2]int64{20_000, 39_000}}, b: scraper{err: gone}, want: map[float64]int{1: 41}, asked: [2]int{1, 1},
			warnings: []string{"samples may be missing from 1970-01-01T00:00:19Z on: replica b: gone"},
		},
		"the other has a gap": {
			a: scraper{away: gone}, b: scraper{down: [2]int64{20_000, 39_000}}, want: map[float64]int{2: 41}, asked: [2]int{0, 1},
			warnings: []string{"samples may be missing from 1970-01-01T00:00:19Z on: replica a: gone"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := c.a, c.b
			a.value, b.value, b.offset = 1, 2, 500
			pair := pairOf(nil, false, &a, &b)
			for range 2 { // the second time from what is kept, but for what failed
				times, values, ws, err := minute(t, selection.Storage{Source: pair}, "")
				require.NoError(t, err)
				require.True(t, slices.IsSorted(times))
				require.Equal(t, c.want, values)
				texts, _ := ws.AsStrings("", 0, 0)
				require.ElementsMatch(t, c.warnings, texts)
				if a.err == nil && b.err == nil {
					require.Equal(t, c.asked, [2]int{a.asked, b.asked})
				}
			}
		})
	}
}

func TestAllReplicasFail(t *testing.T) {
	for _, penalty := range []bool{false, true} {
		reg := prometheus.NewPedanticRegistry()
		pair := pairOf(reg, penalty, &scraper{err: errors.New("out of disk")}, &scraper{err: errors.New("starting")})
		_, _, _, err := minute(t, selection.Storage{Source: pair}, "")
		require.EqualError(t, err, "replica a: out of disk; replica b: starting")
		require.Equal(t, 2.0, testutil.ToFloat64(pair.failed.WithLabelValues("a"))+testutil.ToFloat64(pair.failed.WithLabelValues("b")))
	}
}

// TestAllReplicasAway: what is known to be away is asked where all are.
func TestAllReplicasAway(t *testing.T) {
	a, b := &scraper{value: 1, away: errors.New("x")}, &scraper{value: 2, away: errors.New("y")}
	_, values, ws, err := minute(t, selection.Storage{Source: pairOf(nil, false, a, b)}, "")
	require.NoError(t, err)
	require.Empty(t, ws)
	require.Equal(t, map[float64]int{1: 61}, values)
}

func TestPenalty(t *testing.T) {
	a, b := &scraper{value: 1, down: [2]int64{20_000, 39_000}}, &scraper{value: 2, offset: 500}
	pair := pairOf(nil, true, a, b)
	times, values, ws, err := minute(t, selection.Storage{Source: pair}, "")
	require.NoError(t, err)
	require.Empty(t, ws)
	require.Equal(t, map[float64]int{1: 20, 2: 39}, values)
	require.Equal(t, int64(21_500), times[20], "two distances behind the last sample")

	b.away = errors.New("gone")
	_, values, ws, err = minute(t, selection.Storage{Source: pair}, "")
	require.NoError(t, err)
	require.Equal(t, map[float64]int{1: 41}, values)
	require.EqualError(t, ws.AsErrors()[0], "partial answer, of the other replicas alone: replica b: gone")
}

// TestPenaltyOfCounters: a selector that rate reads is one of counters, of which the one that is behind is raised:
// also where the pair is one of several upstreams.
func TestPenaltyOfCounters(t *testing.T) {
	a, b := &scraper{value: 2, down: [2]int64{20_000, 60_000}}, &scraper{value: 1, offset: 500}
	pair := pairOf(nil, true, a, b)
	for _, of := range []storage.Queryable{selection.Storage{Source: pair}, selection.Storage{Source: New(nil, Upstream{Name: "pair", Cache: pair})}} {
		for function, want := range map[string]map[float64]int{"": {2: 20, 1: 39}, "rate": {2: 59}} {
			_, values, _, err := minute(t, of, function)
			require.NoError(t, err)
			require.Equal(t, want, values)
		}
	}
}
