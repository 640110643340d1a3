//go:build unix

package api

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/selection"
)

// TestDisconnect: a query whose client has gone in the middle of its evaluation
// ends at once. What is measured is the processor's time, not to be misled by
// what else the machine does.
func TestDisconnect(t *testing.T) {
	e := &watched{Engine: newEngine(t, nil), began: make(chan struct{}, 1), ended: make(chan error, 1)}
	server := httptest.NewServer(newTestAPI(t, func(o *Options) {
		o.Engine = e
		o.Queryable = chunkStorage{sel: oneLongSeries(t)}
	}))
	defer server.Close()
	form := url.Values{"query": {"quantile_over_time(0.9, m[12h])"}, "start": {"0"}, "end": {"180000"}, "step": {"17"}}.Encode()
	for _, door := range []string{"/query", "/api/v1/query_range"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, method, server.URL+door+"?"+form, nil)
			if method == http.MethodPost {
				r, err = http.NewRequestWithContext(ctx, method, server.URL+door, strings.NewReader(form))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			require.NoError(t, err)
			gone := make(chan error, 1)
			go func() {
				_, err := http.DefaultClient.Do(r)
				gone <- err
			}()
			<-e.began
			time.Sleep(30 * time.Millisecond)
			left := processorTime(t)
			leave()
			require.ErrorIs(t, <-gone, context.Canceled)
			require.ErrorAs(t, <-e.ended, new(promql.ErrQueryCanceled), "%s %s", method, door)
			require.Less(t, processorTime(t)-left, 500*time.Millisecond, "%s %s", method, door)
		}
	}
}

// processorTime is the time that this process has kept processors busy.
func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// oneLongSeries is a series whose windows of hours take seconds to sort: with
// zeros of both signs, each is sorted by itself.
func oneLongSeries(t *testing.T) *selection.Selection {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	for at := int64(0); at < 12_000; at += 120 {
		c := chunkenc.NewXORChunk()
		app, err := c.Appender()
		require.NoError(t, err)
		for k := at; k < at+120; k++ {
			app.Append(0, k*15_000, math.Copysign(float64(k*7919%1009), float64(1-k%2*2)))
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, at*15_000, (at+119)*15_000, c.Bytes()))
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// watched is an engine that tells when a range query's evaluation begins and
// ends.
type watched struct {
	Engine
	began chan struct{}
	ended chan error
}

func (w *watched) NewQuery(ctx context.Context, r engine.Request) (promql.Query, error) {
	query, err := w.Engine.NewQuery(ctx, r)
	return watchedQuery{query, w}, err
}

type watchedQuery struct {
	promql.Query
	w *watched
}

func (q watchedQuery) Exec(ctx context.Context) *promql.Result {
	q.w.began <- struct{}{}
	r := q.Query.Exec(ctx)
	q.w.ended <- r.Err
	return r
}

// chunkStorage answers every selector with one selection.
type chunkStorage struct {
	failing
	sel *selection.Selection
}

func (s chunkStorage) Querier(int64, int64) (storage.Querier, error) {
	return chunkQuerier{storage.NoopQuerier(), s.sel}, nil
}

type chunkQuerier struct {
	storage.Querier
	sel *selection.Selection
}

func (q chunkQuerier) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return q.sel, nil, nil
}

// TestNamesEnd: names of labels are put together as long as their request lasts.
func TestNamesEnd(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = failing{} })
	many := make([]string, 100_000)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	_, _, err := a.names(httptest.NewRequestWithContext(ctx, http.MethodGet, "/?match[]=a&match[]=b", nil), func(storage.Querier, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
		asked++
		cancel()
		return many, nil, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, asked)
}
