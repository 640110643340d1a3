package fanout

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is an upstream with one series, of a value that tells whose it is, and
// labels. It fails with err if that is set.
type source struct {
	value   float64
	err     error
	block   bool // until the context ends
	fetches int
}

func (s *source) Fetch(ctx context.Context, _, _ int64, _ []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	s.fetches++
	if s.block {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	if s.err != nil {
		return nil, nil, s.err
	}
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	if err := b.Floats(selectiontest.TimesBetween(0, 9000, 1000), slices.Repeat([]float64{s.value}, 10)); err != nil {
		return nil, nil, err
	}
	sel, err := b.Finish()
	return sel, nil, err
}

func up(name string, s *source, optional bool) Upstream {
	return Upstream{Name: name, Cache: cache.New(s, cache.Options{HostBytes: 1 << 20}), Optional: optional}
}

func get(t *testing.T, f storage.Queryable, ctx context.Context) (values []float64, ws annotations.Annotations, err error) {
	t.Helper()
	q, err := f.Querier(0, 10_000)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			_, v := it.At()
			values = append(values, v)
		}
	}
	return values, set.Warnings(), set.Err()
}

func TestFirstListedHasItsWay(t *testing.T) {
	a, b := &source{value: 1}, &source{value: 2}
	for range 2 {
		values, ws, err := get(t, selection.Storage{Source: New(nil, up("a", a, false), up("b", b, false))}, t.Context())
		require.NoError(t, err)
		require.Empty(t, ws)
		require.Equal(t, []float64{a.value, a.value, a.value, a.value, a.value, a.value, a.value, a.value, a.value, a.value}, values)
		a, b = b, a
	}
}

func TestFailures(t *testing.T) {
	reg := prometheus.NewRegistry()
	bad, good := &source{err: errors.New("broken")}, &source{value: 2}
	f := New(reg, up("bad", bad, true), up("good", good, true))
	values, ws, err := get(t, selection.Storage{Source: f}, t.Context())
	require.NoError(t, err)
	require.Len(t, values, 10)
	require.Len(t, ws, 1)
	var partial *PartialWarning
	for _, w := range ws {
		require.ErrorAs(t, w, &partial)
		require.ErrorIs(t, w, bad.err)
		require.Equal(t, "bad", partial.Upstream)
	}
	require.Equal(t, 1.0, testutil.ToFloat64(f.partial.WithLabelValues("bad")))
	require.Equal(t, 0.0, testutil.ToFloat64(f.partial.WithLabelValues("good")))

	_, _, err = get(t, selection.For(selection.Storage{Source: f}, selection.Request{Whole: true}), t.Context())
	require.ErrorIs(t, err, bad.err)

	// Without any upstream left the answer is empty.
	good.err = errors.New("broken, too")
	for _, u := range f.upstreams {
		u.Cache.(*cache.Cache).Clear()
	}
	values, ws, err = get(t, selection.Storage{Source: f}, t.Context())
	require.NoError(t, err)
	require.Empty(t, values)
	require.Len(t, ws, 2)
}

// TestOneFailureEndsTheOthers: an answer that there will not be is not waited for.
func TestOneFailureEndsTheOthers(t *testing.T) {
	for _, names := range [][2]string{{"slow", "bad"}, {"bad", "slow"}} {
		sources := map[string]*source{"slow": {block: true}, "bad": {err: errors.New("broken")}}
		f := New(nil, up(names[0], sources[names[0]], false), up(names[1], sources[names[1]], false))
		_, _, err := get(t, selection.Storage{Source: f}, t.Context())
		require.ErrorIs(t, err, sources["bad"].err)
	}
}

// TestCancelled: that the client went away is not an upstream's failure.
func TestCancelled(t *testing.T) {
	f := New(nil, up("slow", &source{block: true}, true))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, _, err := get(t, selection.Storage{Source: f}, ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestStatsByUpstream(t *testing.T) {
	f := New(nil, up("good", &source{}, false), up("bad", &source{err: errors.New("broken")}, true))
	var s selection.Stats
	require.Empty(t, s.Upstreams())
	_, _, err := get(t, selection.For(selection.Storage{Source: f}, selection.Request{Stats: &s}), t.Context())
	require.NoError(t, err)
	got := s.Upstreams()
	require.Len(t, got, 2)
	require.Equal(t, int64(1), got[0].Fetches.Load())
	require.Positive(t, got[0].FetchedBytes.Load())
	require.NoError(t, got[0].Err())
	require.Equal(t, "bad", got[1].Name())
	require.Equal(t, int64(1), got[1].Fetches.Load())
	require.ErrorContains(t, got[1].Err(), "broken")
}

func TestDrop(t *testing.T) {
	a, b := &source{}, &source{}
	f := New(nil, up("a", a, false), up("b", b, false))
	for range 2 {
		_, _, err := get(t, selection.Storage{Source: f}, t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 1, a.fetches)
	d, err := f.Drop(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.Equal(t, cache.Dropped{Selectors: 2, Tiles: 2}, d)
	_, _, err = get(t, selection.Storage{Source: f}, t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, a.fetches)
	require.Equal(t, 2, b.fetches)
}

// TestCorruptChunks: what of several upstreams turns out to be unusable is
// forgotten by the caches that it came from.
func TestCorruptChunks(t *testing.T) {
	a, b := &source{value: 1}, &source{value: 2}
	f := New(nil, up("a", a, false), up("b", b, false))
	q, err := selection.Storage{Source: f}.Querier(0, 10_000)
	require.NoError(t, err)
	defer q.Close()
	sel, _, err := q.(selection.Querier).SelectChunks(t.Context(), nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
	require.NoError(t, err)
	sel.Discard()
	_, _, err = get(t, selection.Storage{Source: f}, t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, a.fetches)
	require.Equal(t, 2, b.fetches)
}

// A panic while an upstream is asked is its failure.
func TestPanicIsAFailure(t *testing.T) {
	f := New(nil, up("a", &source{value: 1}, true), up("b", &source{value: 2}, true))
	q, err := selection.Storage{Source: f}.Querier(0, 10_000)
	require.NoError(t, err)
	defer q.Close()
	bug := []selection.Get{func(context.Context) (*selection.Selection, annotations.Annotations, error) { panic("a bug") }}
	answers, err := q.(*selection.SeriesQuerier).Reader.(*reader).wait(t.Context(), [][]selection.Get{bug, bug}, 0)
	require.NoError(t, err)
	require.Len(t, answers, 2)
	for _, a := range answers {
		var p *parallel.Panic
		require.ErrorAs(t, a.err, &p)
		require.Contains(t, string(p.Stack), "TestPanicIsAFailure")
	}
}

// lister is a source that lists labels, unless it fails.
type lister struct {
	source
	list []string
}

func (l *lister) LabelNames(context.Context, int64, int64, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return l.list, annotations.New().Add(errors.New("about " + l.list[0])), l.err
}

func (l *lister) LabelValues(_ context.Context, _, _ int64, name string, _ *storage.LabelHints, _ ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return slices.Sorted(slices.Values(append(l.list, name))), nil, l.err
}

// Lists are the union of what all upstreams list; one that fails is an error, or a warning if it is optional.
func TestLists(t *testing.T) {
	of := func(name string, l *lister, optional bool) Upstream {
		return Upstream{Name: name, Cache: cache.New(l, cache.Options{HostBytes: 1 << 20}), Optional: optional}
	}
	a, b := &lister{list: []string{"job", "x"}}, &lister{list: []string{"a", "job"}}
	names := func(optional bool) ([]string, []string, error) {
		q, err := selection.Storage{Source: New(nil, of("a", a, optional), of("b", b, false))}.Querier(0, 1)
		require.NoError(t, err)
		defer q.Close()
		list, ws, err := q.LabelNames(t.Context(), nil)
		warnings, _ := ws.AsStrings("", 0, 0)
		slices.Sort(warnings)
		return list, warnings, err
	}
	list, ws, err := names(false)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "job", "x"}, list)
	require.Equal(t, []string{"about a", "about job"}, ws)
	q, err := selection.Storage{Source: New(nil, of("a", a, false), of("b", b, false))}.Querier(0, 1)
	require.NoError(t, err)
	values, _, err := q.LabelValues(t.Context(), "v", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "job", "v", "x"}, values)
	require.NoError(t, q.Close())

	a.err = errors.New("away")
	_, _, err = names(false)
	require.ErrorContains(t, err, "away")
	list, ws, err = names(true)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "job"}, list)
	require.Equal(t, []string{"about a", "about job", "away"}, ws)
}
