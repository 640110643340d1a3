package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/selection"
)

// panickingStorage panics when it is asked for chunks, which happens in a goroutine of its own.
type panickingStorage struct{ failing }

func (panickingStorage) Querier(int64, int64) (storage.Querier, error) {
	return panickingQuerier{storage.NoopQuerier()}, nil
}

type panickingQuerier struct{ storage.Querier }

func (panickingQuerier) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	panic("a bug")
}

// A panic in a goroutine of a query is that query's error.
func TestPanicInAGoroutine(t *testing.T) {
	reg := prometheus.NewRegistry()
	var log bytes.Buffer
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = panickingStorage{}
		o.Metrics = guard.NewMetrics(reg)
		o.Gatherer = reg
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for _, path := range []string{
		"/api/v1/query?query=sum(m)", "/api/v1/query_range?query=rate(m[5m])&start=0&end=60&step=10", "/query?query=m", "/explain?analyze=true&query=sum(m)",
	} {
		log.Reset()
		code, got := getJSON(t, a, path)
		require.Equal(t, 500, code, "%s: %s", path, got.Error)
		require.Equal(t, "internal", got.ErrorType, path)
		require.Contains(t, got.Error, "a bug", path)
		require.Contains(t, log.String(), "panickingQuerier.SelectChunks", path)
	}
	require.Contains(t, do(t, a, httptest.NewRequest(http.MethodGet, "/metrics", nil)).Body.String(), "promwarp_http_panics_total 4")
}

// panickingTransport panics when a request is forwarded.
type panickingTransport struct{}

func (panickingTransport) RoundTrip(*http.Request) (*http.Response, error) { panic("a bug") }

// One that happens while several upstreams are asked is that request's.
func TestPanicWhileGathering(t *testing.T) {
	base := httptest.NewRequest(http.MethodGet, "http://up/", nil).URL
	r := &forward.Remote{Name: "one", Base: base, Transport: panickingTransport{}}
	a := newTestAPI(t, func(o *Options) {
		o.Remotes = []*forward.Remote{r, {Name: "two", Base: base, Transport: panickingTransport{}}}
	})
	code, got := getJSON(t, a, "/api/v1/labels")
	require.Equal(t, 500, code)
	require.Contains(t, got.Error, "a bug")
}
