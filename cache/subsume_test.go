package cache

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

func matchersIn(t testing.TB, selector string) []*labels.Matcher {
	t.Helper()
	ms, err := parser.NewParser(parser.Options{}).ParseMetricSelector(selector)
	require.NoError(t, err)
	return ms
}

// answering is an upstream with given series, which answers as a Prometheus with
// external labels does: it has matchers that fix them match series that lack
// them, and adds them to what it found.
type answering struct {
	t        testing.TB
	series   []labels.Labels
	external map[string]string
	required *labels.Matcher
	asked    int
}

func (m *answering) Fetch(_ context.Context, mint, maxt int64, ms []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	m.asked++
	b := selection.NewBuilder(0)
	if !m.Answers(ms) {
		return selection.Empty(), nil, nil
	}
	ms = slices.Clone(ms)
	for i, x := range ms {
		if x.Type == labels.MatchEqual && m.external[x.Name] == x.Value {
			ms[i] = labels.MustNewMatcher(labels.MatchEqual, x.Name, "")
		}
	}
	for _, l := range m.series {
		if slices.ContainsFunc(ms, func(x *labels.Matcher) bool { return !x.Matches(l.Get(x.Name)) }) {
			continue
		}
		add := labels.NewBuilder(l)
		for name, value := range m.external {
			if l.Get(name) == "" {
				add.Set(name, value)
			}
		}
		b.Series(add.Labels())
		data := selectiontest.Encode(m.t, chunkenc.EncXOR, selectiontest.TimesBetween(mint, maxt, 600_000), func(ts int64) float64 { return float64(ts) })
		require.NoError(m.t, b.Chunk(chunkenc.EncXOR, mint, maxt, data))
	}
	s, err := b.Finish()
	return s, nil, err
}

func (m *answering) Answers(ms []*labels.Matcher) bool {
	return m.required == nil || matching.ContainsMatcher(ms, m.required)
}

func someSeries() (out []labels.Labels) {
	for _, name := range []string{"a", "b"} {
		for _, job := range []string{"x", "y"} {
			for _, code := range []string{"", "200", "404", "500"} {
				out = append(out, labels.FromStrings("__name__", name, "job", job, "code", code).WithoutEmpty())
			}
		}
	}
	return out
}

func TestSubsumed(t *testing.T) {
	for _, test := range []struct {
		wide, narrow string
		want         bool // whether nothing is fetched for narrow
	}{
		{`a`, `a{job="x"}`, true},
		{`a`, `a{code=~"5.."}`, true},
		{`a`, `a{code!~"5.."}`, true},
		{`a`, `a{code=""}`, true},
		{`a`, `a{code!=""}`, true},
		{`a`, `a{job="none"}`, true},
		{`a`, `a{zone="none"}`, true},
		{`a`, `a{zone!="none"}`, true}, // no series has a zone, so none is added
		{`a`, `a{zone=""}`, true},
		{`a`, `a{job!="none"}`, false}, // job might be external: all have one
		{`a`, `a{job=~"x"}`, false},
		{`{job=~"x|y"}`, `{job="x"}`, false},
		{`{__name__=~"a|b"}`, `a{code="200"}`, true},
		{`{__name__=~".*",job="x"}`, `b{job="x"}`, true},
		{`{code=~"|200"}`, `{code="200"}`, true},
		{`{code=~"|200"}`, `{code=~"200|"}`, true},
		{`{code=~"200|404"}`, `{code="200"}`, false}, // it might be external
		{`{job=~"x|y"}`, `{job=~"x|z"}`, false},
		{`a{code!=""}`, `a{code=~"4.."}`, false}, // nothing kept lacks a code
		{`a{code=~".+"}`, `a{code!~"4..|"}`, false},
		{`a{code=~".*"}`, `a{code=~"2.."}`, false}, // may match fewer, with a newline
		{`a{code!=""}`, `a{code=~"4.*|"}`, false},
		{`a{code!="200"}`, `a{code="404"}`, true},
		{`a{code!="200"}`, `a{code="200"}`, false},
		{`a{code!="200"}`, `a{code!~"200|404"}`, true},
		{`a{job="x"}`, `a`, false},
		{`a{job="x"}`, `a{code="200"}`, false},
		{`a`, `b`, false},
		{`b`, `{__name__=~"a|b"}`, false},
		{`a{job=~"x"}`, `a{job="x"}`, false}, // job might be external: all have x
	} {
		t.Run(test.wide+test.narrow, func(t *testing.T) {
			up := &answering{t: t, series: someSeries()}
			c, _ := clocked(t, up, Options{})
			get := func(selector string) (map[string][]sample, *selection.Stats) {
				var qs selection.Stats
				sel, _, err := c.counted(t.Context(), &qs, 80*hour, 90*hour-1, matchersIn(t, selector))
				require.NoError(t, err)
				got, order := read(t, sel.SeriesSet(80*hour, 90*hour-1, nil))
				require.True(t, slices.IsSorted(order))
				return got, &qs
			}
			get(test.wide)
			up.asked = 0
			got, qs := get(test.narrow)
			require.Equal(t, test.want, up.asked == 0)
			require.Equal(t, test.want, qs.TilesSubsumed.Load() == 5)
			require.Equal(t, test.want, qs.TilesFetched.Load() == 0)
			require.Equal(t, !test.want, qs.Fetches.Load() == 1)
			fresh, _ := clocked(t, up, Options{})
			sel, _, err := fresh.get(t.Context(), 80*hour, 90*hour-1, matchersIn(t, test.narrow))
			require.NoError(t, err)
			want, _ := read(t, sel.SeriesSet(80*hour, 90*hour-1, nil))
			require.Equal(t, want, got)
			up.asked = 0
			_, qs = get(test.narrow)
			require.Zero(t, up.asked)
			require.EqualValues(t, 5, qs.TilesHit.Load(), "it is the narrow one's own now")
		})
	}
}

// Whatever is kept, and whatever labels the upstream adds, an answer is the one
// that the upstream gives.
func TestSubsumedIsTheUpstreams(t *testing.T) {
	pool := []string{`a`, `{__name__=~"a|b"}`, `{__name__=~".+"}`}
	for _, m := range []string{`zone="z"`, `zone="w"`, `zone=""`, `zone!=""`, `zone!="z"`, `zone=~"z|w"`, `zone=~".+"`, `zone!~"z"`, `zone=~".*"`, `code=~"2.."`, `code!="200"`, `job="x"`, `job=~"x"`} {
		pool = append(pool, fmt.Sprintf(`a{%s}`, m), fmt.Sprintf(`a{job="x",%s}`, m))
	}
	series := someSeries()
	for _, name := range []string{"a", "b"} {
		// One with a label that may be external, and one with a newline.
		series = append(series, labels.FromStrings("__name__", name, "job", "x", "zone", "w"), labels.FromStrings("__name__", name, "job", "x", "code", "2\n0"))
	}
	for _, external := range []map[string]string{nil, {"zone": "z"}, {"zone": "z", "code": "other"}} {
		for _, required := range []*labels.Matcher{nil, labels.MustNewMatcher(labels.MatchEqual, "job", "x")} {
			subsumed := int64(0)
			for _, wide := range pool {
				for _, narrow := range pool {
					up := &answering{t: t, series: series, external: external, required: required}
					c, _ := clocked(t, up, Options{})
					ask := func(c *Cache, selector string) map[string][]sample {
						sel, _, err := c.get(t.Context(), 80*hour, 82*hour-1, matchersIn(t, selector))
						require.NoError(t, err)
						got, _ := read(t, sel.SeriesSet(80*hour, 82*hour-1, nil))
						return got
					}
					ask(c, wide)
					ask(c, `b{code="",zone=""}`) // may show which labels are not external
					got := ask(c, narrow)
					alone, _ := clocked(t, up, Options{})
					require.Equal(t, ask(alone, narrow), got, "%s after %s, %v", narrow, wide, external)
					subsumed += c.totals().Subsumed
				}
			}
			require.Positive(t, subsumed)
		}
	}
}

// A kept series without a label tells that it is not external.
func TestSubsumedByWhatElseIsKept(t *testing.T) {
	up := &answering{t: t, series: someSeries()}
	c, _ := clocked(t, up, Options{})
	asked := func(selector string) int {
		up.asked = 0
		_, _, err := c.get(t.Context(), 80*hour, 82*hour-1, matchersIn(t, selector))
		require.NoError(t, err)
		return up.asked
	}
	require.Equal(t, 1, asked(`a{code!=""}`))
	require.Equal(t, 1, asked(`a{code=~"4.."}`))
	require.Equal(t, 1, asked(`b`)) // some have no code
	require.Equal(t, 0, asked(`a{code=~"5.."}`))
	c.Clear()
	asked(`a{code!=""}`)
	require.Equal(t, 1, asked(`a{code=~"5.."}`))
}

// Of an upstream that does not say how it matches, nothing is taken.
func TestSubsumedNotWithoutAnswerer(t *testing.T) {
	up := &answering{t: t, series: someSeries()}
	c, _ := clocked(t, struct{ Upstream }{up}, Options{})
	for _, selector := range []string{`a`, `a{job="x"}`} {
		_, _, err := c.get(t.Context(), 80*hour, 82*hour-1, matchersIn(t, selector))
		require.NoError(t, err)
	}
	require.Equal(t, 2, up.asked)
	require.Zero(t, c.totals().Subsumed)
}

// What is corrupt of a wide selector is dropped when it shows in a narrow one.
func TestCorruptChunkSubsumed(t *testing.T) {
	up := &fake{fetch: func(_ context.Context, mint, _ int64) (*selection.Selection, annotations.Annotations, error) {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m", "i", "0"))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, mint, mint+1000, []byte{0, 9, 1, 2, 3}))
		s, err := b.Finish()
		return s, nil, err
	}}
	c, _ := clocked(t, up, Options{})
	for _, selector := range []string{`m`, `m{i="0"}`} {
		_, _, err := c.get(t.Context(), 80*hour, 82*hour-1, matchersIn(t, selector))
		require.NoError(t, err)
	}
	require.Len(t, up.asked(), 1)
	sel, _, err := c.get(t.Context(), 80*hour, 82*hour-1, matchersIn(t, `m{i="0"}`))
	require.NoError(t, err)
	sel.Discard()
	require.Empty(t, c.entries)
	require.Empty(t, c.named)
	require.Zero(t, c.Stats().Bytes)
}
