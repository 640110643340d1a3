package api

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

func TestCacheStatus(t *testing.T) {
	var asked int
	a := newTestAPI(t, func(o *Options) {
		o.Caches = func(selectors int) []cache.Contents {
			asked = selectors
			return []cache.Contents{{Count: 3}}
		}
	})
	code, got := getJSON(t, a, "/api/v1/status/cache")
	require.Equal(t, 200, code)
	require.Equal(t, mostSelectors, asked)
	var all []cache.Contents
	require.NoError(t, json.Unmarshal(got.Data, &all))
	require.Equal(t, []cache.Contents{{Count: 3}}, all)
	getJSON(t, a, "/api/v1/status/cache?limit=5")
	require.Equal(t, 5, asked)
	for _, wrong := range []string{"-1", "x"} {
		code, got = getJSON(t, a, "/api/v1/status/cache?limit="+wrong)
		require.Equal(t, 400, code)
		require.Contains(t, got.Error, "limit")
	}
	_, got = getJSON(t, newTestAPI(t, nil), "/api/v1/status/cache")
	require.JSONEq(t, "[]", string(got.Data))
}

func TestGPUStatus(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.GPUs = func() placement.Report { return placement.Report{Reason: "of a test"} } })
	_, got := getJSON(t, a, "/api/v1/status/gpus")
	require.JSONEq(t, `{"reason":"of a test","devices":null}`, string(got.Data))
	_, got = getJSON(t, newTestAPI(t, nil), "/api/v1/status/gpus")
	require.JSONEq(t, `{"reason":"no GPU is to be used (--gpu.mode=off)","devices":[]}`, string(got.Data))
}

// hanging is an engine whose instant queries do nothing until they are cancelled.
type hanging struct {
	Engine
	began chan struct{}
}

func (h hanging) NewQuery(ctx context.Context, r engine.Request) (promql.Query, error) {
	query, err := h.Engine.NewQuery(ctx, r)
	return hangingQuery{query, h.began}, err
}

type hangingQuery struct {
	promql.Query
	began chan struct{}
}

func (q hangingQuery) Exec(ctx context.Context) *promql.Result {
	close(q.began)
	<-ctx.Done()
	return q.Query.Exec(ctx)
}

// TestCancel: a query that hangs is listed by what it asks for, and an operator can
// cancel it, where the admin API is on.
func TestCancel(t *testing.T) {
	off := newTestAPI(t, nil)
	code, got := postForm(t, off, "/api/v1/admin/queries/cancel", url.Values{"id": {"1"}})
	require.Equal(t, 503, code)
	require.Contains(t, got.Error, "--web.enable-admin-api")

	e := hanging{newEngine(t, nil), make(chan struct{})}
	a := newTestAPI(t, func(o *Options) { o.Cancel, o.Engine = true, e })
	answered := make(chan *httptest.ResponseRecorder)
	go func() { answered <- do(t, a, httptest.NewRequest("GET", "/api/v1/query?query=m", nil)) }()
	<-e.began
	_, got = getJSON(t, a, "/api/v1/status/queries")
	var all []admit.Request
	require.NoError(t, json.Unmarshal(got.Data, &all))
	require.Len(t, all, 1)
	require.Equal(t, []any{"m", "/api/v1/query", "auto", false, selection.Evaluating}, []any{all[0].Query, all[0].Door, all[0].Executor, all[0].Waiting, all[0].Stage})

	for id, want := range map[string]int{"": 400, "x": 400, "99": 404} {
		code, _ = postForm(t, a, "/api/v1/admin/queries/cancel", url.Values{"id": {id}})
		require.Equal(t, want, code, id)
	}
	r := httptest.NewRequest("POST", "/api/v1/admin/queries/cancel?id=1", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	require.Equal(t, 403, do(t, a, r).Code, "a page of another origin does not")

	code, _ = postForm(t, a, "/api/v1/admin/queries/cancel", url.Values{"id": {"1"}})
	require.Equal(t, 200, code)
	w := <-answered
	require.GreaterOrEqual(t, w.Code, 400)
	require.Contains(t, w.Body.String(), "canceled")
	_, got = getJSON(t, a, "/api/v1/status/queries")
	require.JSONEq(t, "[]", string(got.Data))
}
