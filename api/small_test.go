package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/stats"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/internal/queue"
)

// choosy is an engine whose range queries for large block, and say that they read many samples.
type choosy struct {
	Engine
	block chan struct{}
}

func (c choosy) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, step time.Duration) (promql.Query, error) {
	query, err := c.Engine.NewRangeQuery(ctx, q, opts, qs, start, end, step)
	if strings.Contains(qs, "large") {
		query = largeQuery{query, c.block}
	}
	return query, err
}

type largeQuery struct {
	promql.Query
	block chan struct{}
}

func (q largeQuery) Exec(ctx context.Context) *promql.Result {
	<-q.block
	return q.Query.Exec(ctx)
}

func (q largeQuery) Stats() *stats.Statistics {
	s := *q.Query.Stats()
	s.Samples = &stats.QuerySamples{TotalSamples: 1 << 30}
	return &s
}

// TestSmallQueries: a query that was small when it was asked last does not wait behind large ones
// of its client, whenever its range begins, and one that was large does.
func TestSmallQueries(t *testing.T) {
	block := make(chan struct{})
	large, small := queue.New(queue.Limits{Slots: 2, MaxWaiting: 10, MaxWait: time.Minute}, nil), queue.New(queue.Limits{Slots: 2, MaxWaiting: 10, MaxWait: time.Minute}, nil)
	a := newTestAPI(t, func(o *Options) {
		o.Engine, o.Queue, o.Small = choosy{newEngine(t, nil), block}, large, admit.NewSmall(small)
	})
	ask := func(query string, start int) int {
		return askFrom(a, "10.0.0.1:1", "/api/v1/query_range?query="+query+"&step=60&start="+strconv.Itoa(start)+"&end="+strconv.Itoa(start+600)).Code
	}
	require.Equal(t, http.StatusOK, ask("sum(up)", 0))
	answers := make(chan int, 10)
	later := func(query string, start int) { go func() { answers <- ask(query, start) }() }
	for range 2 {
		later("large", 0)
	}
	require.Eventually(t, func() bool { return large.Running() == 2 }, time.Minute, time.Millisecond)
	for i := range 20 {
		require.Equal(t, http.StatusOK, ask("sum(up)", 60*i))
	}
	later("sum(up)%2b1", 0)       // which is not known
	later("sum(up)&step=30", 0)   // nor this
	later("sum(up)&end=90000", 0) // nor this
	require.Eventually(t, func() bool { return large.Waiting() == 3 }, time.Minute, time.Millisecond)
	close(block)
	for range 5 {
		require.Equal(t, http.StatusOK, <-answers)
	}
	require.Zero(t, small.Running()+small.Waiting())

	slot, err := large.Enter(t.Context(), "another")
	require.NoError(t, err)
	later("large", 0)
	require.Equal(t, http.StatusOK, <-answers)
	slot.Leave()
	for range 2 {
		slot, err := large.Enter(t.Context(), "another")
		require.NoError(t, err)
		defer slot.Leave()
	}
	later("large", 0) // it was large, though it no longer blocks
	require.Eventually(t, func() bool { return large.Waiting() == 1 }, time.Minute, time.Millisecond)
}
