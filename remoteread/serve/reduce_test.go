package serve

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// A reducing handler sends what its function returns, in both forms, with external labels, and
// releases it afterwards. The handler that it was made from sends all.
func TestReducing(t *testing.T) {
	m := &inMemory{sel: holding(t, map[string][]int64{`{__name__="m", a="1"}`: {1, 2, 3}, `{__name__="m", a="2"}`: {2}})}
	plain := newHandler(t, m, func(o *Options) {
		o.ExternalLabels = func() labels.Labels { return labels.FromStrings("cluster", "eu") }
	})
	sum := holding(t, map[string][]int64{`{job="x"}`: {2, 9}})
	released := 0
	h := plain.Reducing(func(_ context.Context, q Query, sel *selection.Selection) (*selection.Selection, func(), error) {
		require.Equal(t, &storage.SelectHints{Start: 1, End: 3, Func: "sum", Grouping: []string{"job"}, By: true}, q.Hints)
		require.Equal(t, [2]int64{1, 3}, [2]int64{q.MinT, q.MaxT})
		require.Len(t, q.Matchers, 2)
		require.Empty(t, q.Matchers[1].Value, "the value of an external label is not stored")
		require.Equal(t, "eu", q.External.Get("cluster"))
		require.Equal(t, 2, sel.NumSeries())
		return sum, func() { require.Positive(t, m.open.Load()); released++ }, nil
	})
	q := query(0, 10)
	q.Matchers = append(q.Matchers, matcher(prompb.LabelMatcher_EQ, "cluster", "eu"))
	q.Hints = &prompb.ReadHints{StartMs: 1, EndMs: 3, Func: "sum", Grouping: []string{"job"}, By: true}
	chunks := &prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: streamed}
	samples := &prompb.ReadRequest{Queries: chunks.Queries, AcceptedResponseTypes: sampled}

	got := chunkAnswer(t, ask(t, h, chunks).Body, [][2]int64{{0, 10}})
	require.Equal(t, got, sampleAnswer(t, ask(t, h, samples).Body, 1))
	order, times := timesOf(got[0])
	require.Equal(t, []string{`{cluster="eu", job="x"}`}, order)
	require.Equal(t, []int64{2}, times[order[0]], "what is out of range is not sent")
	require.Equal(t, 2, released)
	require.Len(t, chunkAnswer(t, ask(t, plain, chunks).Body, [][2]int64{{0, 10}})[0], 2)

	w := ask(t, plain.Reducing(func(context.Context, Query, *selection.Selection) (*selection.Selection, func(), error) {
		return nil, nil, errors.New("not today")
	}), chunks)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, "not today\n", w.Body.String())
	require.Zero(t, m.open.Load())
}
