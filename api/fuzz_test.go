package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/api/promapi"
)

// fuzzedDoors are those that read a form.
var fuzzedDoors = []string{
	"/api/v1/query", "/api/v1/query_range", "/query", "/explain", "/api/v1/format_query", "/api/v1/parse_query",
	"/api/v1/series", "/api/v1/labels", "/api/v1/label/i/values", "/api/v1/query_exemplars", "/federate", "/api/v1/metadata", "/api/v1/rules",
	"/api/v1/admin/cache/drop",
}

const noPanics = `# HELP promwarp_http_panics_total Requests that ended in a panic; the log has the stack.
# TYPE promwarp_http_panics_total counter
promwarp_http_panics_total 0
`

// FuzzForm sends any parameters to any door, in the URL and in a form: the answer is no panic
// and, where it is an error of promwarp's, one in Prometheus's form that is not long.
func FuzzForm(f *testing.F) {
	for door := range fuzzedDoors {
		f.Add(uint8(door), "query=m&time=60", "")
		f.Add(uint8(door), "", "match[]=m&start=0&end=100&step=1m&limit=2")
	}
	f.Add(uint8(1), "start=0&end=1e3&step=1m", "query=sum(rate(m[5m]))&timeout=1s&lookback_delta=1m&stats=all")
	f.Add(uint8(2), "format=csv&executor=cpu&strict=true", "query=m&start=1970-01-01T00:00:00Z&end=60&step=0.1")
	f.Add(uint8(2), "metric=m&start=0&end=600&every=1m&aggregates=sum,95pct,rate:max&by=i&fill=linear", "format=csv")
	f.Add(uint8(2), "metric=m&start=0&end=600&every=1m&aggregates=sum,count&fill=null&layout=wide", "format=arrow")
	f.Add(uint8(2), "query=m&start=0&end=600&step=1m&layout=long&limit=1", "format=parquet")
	f.Add(uint8(3), "analyze=true", "match[]=m&start=0&end=now&every=1y&aggregates=median&reaggregate=std&timezone=Asia/Tokyo")
	f.Add(uint8(3), "analyze=true", "query=topk(1, m)&time=NaN")
	f.Add(uint8(0), "query=m&time=1e308&timeout=-1", "")
	f.Add(uint8(1), "query=m&start=-9223372036854775&end=9223372036854775&step=1e300", "")
	f.Add(uint8(0), "%zz;&=&&a=%00", "a\x00=%%%;")
	f.Add(uint8(13), "all=true", "match[]={i=~\"(\"}&start=x")
	reg := prometheus.NewRegistry()
	a := newTestAPI(f, func(o *Options) {
		o.Metrics, o.Gatherer = guard.NewMetrics(reg), reg
		o.Engine = newEngine(f, func(o *promql.EngineOpts) { o.MaxSamples, o.Timeout = 10_000, time.Second })
		o.Timeout = time.Second
		o.Dropper = &dropper{}
	})
	f.Fuzz(func(t *testing.T, door uint8, query, form string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		send := func(method, body string) (*httptest.ResponseRecorder, *http.Request) {
			r := httptest.NewRequest(method, fuzzedDoors[int(door)%len(fuzzedDoors)], strings.NewReader(body)).WithContext(ctx)
			r.URL.RawQuery = query
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			return w, r
		}
		w, r := send(http.MethodPost, form)
		if w.Code == http.StatusMethodNotAllowed {
			w, r = send(http.MethodGet, "")
		}
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(noPanics), "promwarp_http_panics_total"))
		if w.Code < 400 || r.URL.Path == "/federate" {
			return
		}
		var got answer
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), "%d: %s", w.Code, w.Body)
		require.Equal(t, "error", got.Status)
		require.NotEqual(t, promapi.Internal, got.ErrorType, got.Error)
		require.NotEmpty(t, got.Error)
		require.LessOrEqual(t, len(got.Error), 2*(len(query)+len(form))+8<<10)
	})
}
