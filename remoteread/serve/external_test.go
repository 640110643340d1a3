package serve

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// holding makes a selection of series with a chunk of the given samples each; the value
// of each is its time.
func holding(t testing.TB, all map[string][]int64) *selection.Selection {
	t.Helper()
	b := selection.NewBuilder(0)
	for l, ts := range all {
		b.Series(parsed(l))
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		require.NoError(t, err)
		for _, at := range ts {
			app.Append(0, at, float64(at))
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[len(ts)-1], c.Bytes()))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// timesOf returns the times of an answer's samples by series, and the series' order.
func timesOf(rs []received) (order []string, times map[string][]int64) {
	times = map[string][]int64{}
	for _, one := range rs {
		order = append(order, one.labels)
		for _, s := range one.samples {
			times[one.labels] = append(times[one.labels], s.t)
		}
	}
	return order, times
}

func TestExternalLabels(t *testing.T) {
	eq, ne := prompb.LabelMatcher_EQ, prompb.LabelMatcher_NEQ
	for name, c := range map[string]struct {
		external labels.Labels
		stored   map[string][]int64
		matchers []*prompb.LabelMatcher
		order    []string
		times    map[string][]int64
	}{
		"none": {
			stored: map[string][]int64{`{a="1"}`: {1, 2}, `{a="1", b="1"}`: {3}},
			order:  []string{`{a="1"}`, `{a="1", b="1"}`},
		},
		"put back": {
			external: labels.FromStrings("z", "9"),
			stored:   map[string][]int64{`{a="1"}`: {1, 2}, `{a="2"}`: {3}},
			order:    []string{`{a="1", z="9"}`, `{a="2", z="9"}`},
		},
		"which changes the order": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1"}`: {1, 2}, `{a="1", b="1"}`: {3}},
			order:    []string{`{a="1", b="1", c="9"}`, `{a="1", c="9"}`},
		},
		"a series' own value stays": {
			external: labels.FromStrings("c", "9", "d", "8"),
			stored:   map[string][]int64{`{a="1", c="own"}`: {1, 2}, `{a="1"}`: {3}},
			order:    []string{`{a="1", c="9", d="8"}`, `{a="1", c="own", d="8"}`},
		},
		"two become one": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="9"}`: {1, 3, 5}, `{a="1"}`: {2, 3, 6}, `{a="0"}`: {1}},
			order:    []string{`{a="0", c="9"}`, `{a="1", c="9"}`},
			times:    map[string][]int64{`{a="0", c="9"}`: {1}, `{a="1", c="9"}`: {1, 2, 3, 5, 6}},
		},
		"asked for by their value": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="9"}`: {1, 3, 5}, `{a="1"}`: {2, 3, 6}},
			matchers: []*prompb.LabelMatcher{matcher(eq, "c", "9")},
			order:    []string{`{a="1", c="9"}`},
			times:    map[string][]int64{`{a="1", c="9"}`: {2, 3, 6}},
		},
		"asked for by another value": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="own"}`: {1}, `{a="1"}`: {2}},
			matchers: []*prompb.LabelMatcher{matcher(eq, "c", "own")},
			order:    []string{`{a="1", c="own"}`},
		},
		"asked for by what it is not": {
			external: labels.FromStrings("c", "9"),
			stored:   map[string][]int64{`{a="1", c="own"}`: {1}, `{a="1"}`: {2}},
			matchers: []*prompb.LabelMatcher{matcher(ne, "c", "9")},
			order:    []string{`{a="1", c="9"}`, `{a="1", c="own"}`},
		},
		"empty ones do not count": {
			external: labels.New(labels.Label{Name: "c", Value: ""}),
			stored:   map[string][]int64{`{a="1"}`: {1}},
			order:    []string{`{a="1"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &inMemory{sel: holding(t, c.stored)}
			h := newHandler(t, m, func(o *Options) { o.ExternalLabels = func() labels.Labels { return c.external } })
			q := &prompb.Query{EndTimestampMs: 10, Matchers: append([]*prompb.LabelMatcher{matcher(ne, "a", "")}, c.matchers...)}
			for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
				req := &prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: types}
				w := ask(t, h, req)
				var got, theirs [][]received
				if len(types) > 1 {
					got = chunkAnswer(t, w.Body, [][2]int64{{0, 10}})
					theirs = chunkAnswer(t, ask(t, reference(m, c.external), req).Body, [][2]int64{{0, 10}})
				} else {
					got = sampleAnswer(t, w.Body, 1)
					theirs = sampleAnswer(t, ask(t, reference(m, c.external), req).Body, 1)
				}
				order, times := timesOf(got[0])
				require.Equal(t, c.order, order)
				if c.times != nil {
					require.Equal(t, c.times, times)
				}
				if name != "two become one" && name != "empty ones do not count" {
					require.ElementsMatch(t, theirs[0], got[0], "Prometheus's, in another order")
				}
			}
		})
	}
}
