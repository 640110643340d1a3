package serve

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/planner"
)

// TestLists: matchers of one query, and labels that it groups by, are refused beyond the limit of a
// list. Lists of several queries are several.
func TestLists(t *testing.T) {
	const most = 7
	m := &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})}
	h := newHandler(t, m, func(o *Options) { o.Limits = planner.Limits{Items: most} })
	matching := func(n, grouping int) *prompb.Query {
		q := &prompb.Query{EndTimestampMs: 9, Hints: &prompb.ReadHints{By: true}}
		for i := range n {
			q.Matchers = append(q.Matchers, matcher(prompb.LabelMatcher_NEQ, fmt.Sprint("l", i), "x"))
		}
		for i := range grouping {
			q.Hints.Grouping = append(q.Hints.Grouping, fmt.Sprint("l", i))
		}
		return q
	}
	for name, c := range map[string]struct {
		queries []*prompb.Query
		beyond  bool
	}{
		"matchers at the limit":             {[]*prompb.Query{matching(most, 0)}, false},
		"matchers beyond it":                {[]*prompb.Query{matching(most+1, 0)}, true},
		"labels to group by at the limit":   {[]*prompb.Query{matching(1, most)}, false},
		"labels to group by beyond it":      {[]*prompb.Query{matching(1, most+1)}, true},
		"matchers and labels, each at it":   {[]*prompb.Query{matching(most, most)}, false},
		"several queries, each at it":       {[]*prompb.Query{matching(most, most), matching(most, most), matching(most, 0)}, false},
		"the last query beyond it":          {[]*prompb.Query{matching(1, 0), matching(most, 0), matching(most+3, 0)}, true},
		"the first query beyond it, labels": {[]*prompb.Query{matching(1, most+2), matching(1, 0)}, true},
	} {
		for _, types := range [][]prompb.ReadRequest_ResponseType{streamed, sampled} {
			w := ask(t, h, &prompb.ReadRequest{Queries: c.queries, AcceptedResponseTypes: types})
			if !c.beyond {
				require.Equal(t, http.StatusOK, w.Code, name)
				continue
			}
			require.Equal(t, http.StatusBadRequest, w.Code, name)
			want := fmt.Sprintf("the request has a list of %d matchers or labels to group by or more; the most that --query.max-items allows is %d\n", most+1, most)
			require.Equal(t, want, w.Body.String(), name)
		}
	}
	require.Zero(t, m.open.Load())
}

// TestListsOfTheDefaults: without a setting the default counts, and less than 0 is no limit.
func TestListsOfTheDefaults(t *testing.T) {
	m := &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})}
	long := &prompb.Query{EndTimestampMs: 9}
	for i := range planner.DefaultItems + 1 {
		long.Matchers = append(long.Matchers, matcher(prompb.LabelMatcher_NEQ, fmt.Sprint("l", i), "x"))
	}
	req := &prompb.ReadRequest{Queries: []*prompb.Query{long}}
	require.Equal(t, http.StatusBadRequest, ask(t, newHandler(t, m), req).Code)
	require.Equal(t, http.StatusOK, ask(t, newHandler(t, m, func(o *Options) { o.Limits.Items = -1 }), req).Code)
}

// TestListsTakeMemory: matchers within the limits take more than the bytes of their request, which
// is refused before they are decoded if there is less.
func TestListsTakeMemory(t *testing.T) {
	long := &prompb.Query{EndTimestampMs: 9}
	for i := range 10_000 {
		long.Matchers = append(long.Matchers, matcher(prompb.LabelMatcher_NEQ, fmt.Sprint("l", i), "x"))
	}
	for limit, code := range map[int64]int{1 << 20: http.StatusUnprocessableEntity, 8 << 20: http.StatusOK} {
		h := newHandler(t, &inMemory{sel: holding(t, map[string][]int64{`{a="1"}`: {1}})}, func(o *Options) {
			o.Limits.Items, o.Memory = -1, memory.New(memory.Options{Limit: limit})
		})
		require.Equal(t, code, ask(t, h, &prompb.ReadRequest{Queries: []*prompb.Query{long}}).Code, "%d bytes", limit)
	}
}
