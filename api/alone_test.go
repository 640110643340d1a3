package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// hungry is an engine whose queries fetch some bytes and then find no memory.
type hungry struct {
	Engine
	asked atomic.Int64
	bytes map[string]int64         // by query
	wait  map[string]chan struct{} // that a query waits for once it has fetched; nil waits for nothing
}

func (h *hungry) NewQuery(ctx context.Context, r engine.Request) (promql.Query, error) {
	query, err := h.Engine.NewQuery(ctx, r)
	return hungryQuery{query, h, r}, err
}

type hungryQuery struct {
	promql.Query
	h *hungry
	r engine.Request
}

func (q hungryQuery) Exec(ctx context.Context) *promql.Result {
	q.h.asked.Add(1)
	q.r.Progress.Arrive(q.h.bytes[q.r.Query])
	if wait := q.h.wait[q.r.Query]; wait != nil {
		<-wait
	}
	q.r.Progress.Arrive(-q.h.bytes[q.r.Query]) // as of a fetch that fails
	return &promql.Result{Err: &memory.BusyError{Limit: 1 << 30}}
}

// TestTooLargeAlone: a query that finds no memory though hardly anybody else holds any is at fault
// itself, and the next try is refused before it is evaluated.
func TestTooLargeAlone(t *testing.T) {
	wait := make(chan struct{})
	h := &hungry{
		Engine: newEngine(t, nil),
		bytes:  map[string]int64{"count(up)": 700 << 20, "sum(up)": 600 << 20, "up": 1 << 20, "max(up)": 600 << 20},
		wait:   map[string]chan struct{}{"up": wait, "max(up)": wait},
	}
	pool := memory.New(memory.Options{Limit: 1 << 30})
	a := newTestAPI(t, func(o *Options) {
		q := queue.New(queue.Limits{Slots: 4}, nil)
		o.Engine, o.Queue, o.TooLarge, o.Memory = h, q, memory.NewTooLarge(), pool
	})
	now := time.Now().Unix()
	ask := func(query string, at int64) (status int, body string, evaluated bool) {
		before := h.asked.Load()
		r := askFrom(a, "10.0.0.1:1", "/api/v1/query?query="+url.QueryEscape(query)+"&time="+strconv.FormatInt(at, 10))
		return r.Code, r.Body.String(), h.asked.Load() > before
	}
	answers := make(chan int, 2)
	later := func(query string) {
		before := h.asked.Load()
		go func() {
			status, _, _ := ask(query, now)
			answers <- status
		}()
		require.Eventually(t, func() bool { return h.asked.Load() > before }, time.Minute, time.Millisecond)
	}

	later("up") // which holds little
	status, body, evaluated := ask("count(up)", now)
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	require.Contains(t, body, "--memory.limit=1024 MiB")
	require.Contains(t, body, `"errorType":"execution"`)
	require.True(t, evaluated)
	status, body, evaluated = ask("count(up)", now+15)
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	require.Contains(t, body, "--memory.limit=1024 MiB")
	require.Contains(t, body, "not tried again")
	require.False(t, evaluated)
	_, _, evaluated = ask("count(up)", now-86400)
	require.True(t, evaluated, "another time may have fewer series")
	pool.SetLimit(2 << 30)
	_, _, evaluated = ask("count(up)", now-86400)
	require.True(t, evaluated, "there is more memory now")

	later("max(up)") // which holds much
	for range 2 {
		status, body, evaluated = ask("sum(up)", now)
		require.Equal(t, http.StatusServiceUnavailable, status, body)
		require.True(t, evaluated)
	}
	close(wait)
	require.ElementsMatch(t, []int{http.StatusServiceUnavailable, http.StatusUnprocessableEntity}, []int{<-answers, <-answers})
}

// hungrySelects is a queryable that fetches some bytes and then finds no memory.
type hungrySelects struct {
	storage.SampleAndChunkQueryable
	asked atomic.Int64
	err   error
}

func (h *hungrySelects) Open(r selection.Request, _, _ int64) selection.Reader {
	return hungryReader{LabelQuerier: storage.NoopQuerier(), h: h, r: r}
}

type hungryReader struct {
	storage.LabelQuerier
	selection.Keeper
	h *hungrySelects
	r selection.Request
}

func (q hungryReader) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	q.h.asked.Add(1)
	q.r.Progress.Arrive(700 << 20)
	return nil, nil, q.h.err
}

func (q hungryReader) BeginChunks(asks []selection.Ask) []selection.Get {
	return selection.Begin(struct{ selection.Querier }{q}, asks)
}

// TestTooLargeResample: a resample request that alone finds no memory is at fault itself, and the
// same request, by form or JSON, is refused before anything is fetched.
func TestTooLargeResample(t *testing.T) {
	for name, err := range map[string]error{"busy, alone": &memory.BusyError{Limit: 1 << 30}, "too large": &memory.TooLargeError{Limit: 1 << 30}} {
		h := &hungrySelects{err: err}
		a := newTestAPI(t, func(o *Options) {
			h.SampleAndChunkQueryable = newStorage(t, someSeries)
			o.Resample = resample.New(resample.Options{})
			o.Queue = queue.New(queue.Limits{Slots: 4}, nil)
			o.TooLarge, o.Memory = memory.NewTooLarge(), memory.New(memory.Options{Limit: 1 << 30})
			o.Queryable = h
		})
		const body = `{"metric": "m", "start": 0, "end": 600, "every": "5m", "aggregates": "max"}`
		form := url.Values{"metric": {"m"}, "start": {"0"}, "end": {"600"}, "every": {"5m"}, "aggregates": {"max"}}
		code, got := decode(t, postBody(t, a, "/query", body))
		require.Equal(t, http.StatusUnprocessableEntity, code, "%s: %s", name, got.Error)
		require.EqualValues(t, 1, h.asked.Load())
		code, got = postForm(t, a, "/query", form)
		require.Equal(t, http.StatusUnprocessableEntity, code, name)
		require.Contains(t, got.Error, "not tried again", name)
		require.EqualValues(t, 1, h.asked.Load(), "it was refused before")
		form.Set("aggregates", "min")
		_, _ = postForm(t, a, "/query", form)
		require.EqualValues(t, 2, h.asked.Load(), "another request")
	}
}
