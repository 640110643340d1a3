package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/resample"
)

// arrowOf asks for an Arrow stream and returns its rows, each as the JSON of Arrow's own library,
// and its schema.
func arrowOf(t *testing.T, h http.Handler, path string) (rows []string, schema *arrow.Schema) {
	w := do(t, h, httptest.NewRequest(http.MethodGet, path, nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/vnd.apache.arrow.stream", w.Header().Get("Content-Type"))
	r, err := ipc.NewReader(w.Body)
	require.NoError(t, err)
	for r.Next() {
		var b bytes.Buffer
		require.NoError(t, array.RecordToJSON(r.RecordBatch(), &b))
		rows = append(rows, strings.Split(strings.TrimSpace(b.String()), "\n")...)
	}
	require.NoError(t, r.Err())
	return rows, r.Schema()
}

// TestTables: PromQL answers of all types in all forms.
func TestTables(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, c := range []struct{ form, csv, ndjson string }{
		{"query=m&start=0&end=60&step=60", "__name__,i,timestamp,value\nm,0,0,0\nm,0,60,1\nm,1,0,0\nm,1,60,2\n",
			`{"metric":{"__name__":"m","i":"0"},"timestamp":0,"value":0}
{"metric":{"__name__":"m","i":"0"},"timestamp":60,"value":1}
{"metric":{"__name__":"m","i":"1"},"timestamp":0,"value":0}
{"metric":{"__name__":"m","i":"1"},"timestamp":60,"value":2}
`},
		{"query=m&start=0&end=60&step=60&limit=1&executor=prometheus", "__name__,i,timestamp,value\nm,0,0,0\nm,0,60,1\n",
			`{"metric":{"__name__":"m","i":"0"},"timestamp":0,"value":0}
{"metric":{"__name__":"m","i":"0"},"timestamp":60,"value":1}
{"warnings":["results truncated due to limit"]}
`},
		{"query=m{i=\"0\"}[2m]&time=120.5", "__name__,i,timestamp,value\nm,0,60,1\nm,0,120,2\n",
			"{\"metric\":{\"__name__\":\"m\",\"i\":\"0\"},\"timestamp\":60,\"value\":1}\n{\"metric\":{\"__name__\":\"m\",\"i\":\"0\"},\"timestamp\":120,\"value\":2}\n"},
		{"query=sort_desc(sum by (i) (m))&time=60", "i,timestamp,value\n1,60,2\n0,60,1\n",
			"{\"metric\":{\"i\":\"1\"},\"timestamp\":60,\"value\":2}\n{\"metric\":{\"i\":\"0\"},\"timestamp\":60,\"value\":1}\n"},
		{"query=vector(1/0)&time=0.5", "timestamp,value\n0.5,+Inf\n", "{\"metric\":{},\"timestamp\":0.5,\"value\":\"+Inf\"}\n"},
		{"query=1.5&time=0.5", "timestamp,value\n0.5,1.5\n", "{\"metric\":{},\"timestamp\":0.5,\"value\":1.5}\n"},
		{`query="a,b"&time=1`, "timestamp,value\n1,\"a,b\"\n", "{\"metric\":{},\"timestamp\":1,\"value\":\"a,b\"}\n"},
		{"query=absent(m)&time=60", "timestamp,value\n", ""},
	} {
		for format, want := range map[string]string{"text/csv": c.csv, "application/x-ndjson": c.ndjson} {
			r := httptest.NewRequest(http.MethodGet, "/query", nil)
			form, err := url.ParseQuery(c.form)
			require.NoError(t, err)
			r.URL.RawQuery = form.Encode()
			r.Header.Set("Accept", "application/json;q=0.5, "+format)
			w := do(t, a, r)
			require.Equal(t, format, w.Header().Get("Content-Type"), c.form)
			require.Equal(t, want, w.Body.String(), c.form)
		}
	}
	rows, schema := arrowOf(t, a, "/query?query=m&start=0&end=60&step=60&format=arrow")
	require.Equal(t, `schema:
  fields: 4
    - time: type=timestamp[ms, tz=UTC]
    - __name__: type=dictionary<values=utf8, indices=int32, ordered=false>, nullable
    - i: type=dictionary<values=utf8, indices=int32, ordered=false>, nullable
    - value: type=float64, nullable`, schema.String())
	require.Len(t, rows, 4)
	require.JSONEq(t, `{"__name__":"m","i":"1","time":"1970-01-01T00:01:00Z","value":2}`, rows[3])
	rows, _ = arrowOf(t, a, "/query?query=m&start=0&end=60&step=60&format=arrow&layout=wide")
	require.JSONEq(t, `{"time":"1970-01-01T00:01:00Z","m{i=\"0\"}":1,"m{i=\"1\"}":2}`, rows[1])
	_, schema = arrowOf(t, a, "/query?query=rate(m[5m])&start=600&end=660&step=60&format=arrow&limit=1")
	require.Equal(t, `["PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"m\" (1:6)","results truncated due to limit"]`,
		strings.ReplaceAll(sorted(t, schema.Metadata().Values()[0]), `\u0026`, "&"))
}

// sorted is a list of JSON in order.
func sorted(t *testing.T, list string) string {
	var items []string
	require.NoError(t, json.Unmarshal([]byte(list), &items))
	if len(items) == 2 && items[0] > items[1] {
		items[0], items[1] = items[1], items[0]
	}
	b, err := json.Marshal(items)
	require.NoError(t, err)
	return string(b)
}

// TestResampleTables: resample requests as Arrow and Parquet.
func TestResampleTables(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = newStorage(t, "load 5m\n  gap{a=\"x\"} 1 _ _ Inf NaN\n  gap{b=\"y\"} 1 2 3 4 5")
	})
	const request = "/query?metric=gap&start=0&end=1500&every=5m&aggregates=max,rate:sum&format=arrow"
	rows, _ := arrowOf(t, a, request)
	require.Len(t, rows, 8)
	require.JSONEq(t, `{"time":"1970-01-01T00:15:00Z","__name__":"gap","a":"x","b":null,"max":"+Inf","rate:sum":"+Inf"}`, rows[1])
	require.JSONEq(t, `{"time":"1970-01-01T00:00:00Z","__name__":"gap","a":null,"b":"y","max":1,"rate:sum":null}`, rows[3])
	rows, _ = arrowOf(t, a, request+"&fill=null&aggregates=min")
	require.Len(t, rows, 10)
	require.JSONEq(t, `{"time":"1970-01-01T00:05:00Z","__name__":"gap","a":"x","b":null,"max":null,"min":null,"rate:sum":null}`, rows[1])
	rows, schema := arrowOf(t, a, request+"&layout=wide&executor=gpu")
	require.Len(t, rows, 5)
	require.JSONEq(t, `{"time":"1970-01-01T00:00:00Z","max gap{a=\"x\"}":1,"rate:sum gap{a=\"x\"}":null,"max gap{b=\"y\"}":1,"rate:sum gap{b=\"y\"}":null}`, rows[0])
	require.Contains(t, schema.String(), `"labels": "{\"__name__\":\"gap\",\"a\":\"x\"}"`)
	require.Equal(t, []string{"warnings"}, schema.Metadata().Keys())

	w := do(t, a, httptest.NewRequest(http.MethodGet, strings.Replace(request, "arrow", "parquet", 1), nil))
	require.Equal(t, "application/vnd.apache.parquet", w.Header().Get("Content-Type"))
	require.True(t, strings.HasPrefix(w.Body.String(), "PAR1") && strings.HasSuffix(w.Body.String(), "PAR1"))
}

// TestTablesRefused: each request whose answer cannot be a table gets an error that names the
// field, by a code.
func TestTablesRefused(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = newStorage(t, "load 1m\n  time 1x10\n  m{time=\"a\", value=\"b\"} 1x10\n  h {{schema:1 sum:1 count:1 buckets:[1]}}x10")
	})
	for _, c := range []struct{ name, form, code, field, hint string }{
		{"a format that is none", "query=m&format=xml", resample.CodeInvalidValue, "format", "parquet"},
		{"a layout that is none", "query=m&format=arrow&layout=tall", resample.CodeInvalidValue, "layout", "wide"},
		{"wide CSV", "query=m&format=csv&layout=wide", resample.CodeConflict, "layout", "format=arrow"},
		{"a label that is a column", "query=m&time=60&format=parquet", resample.CodeLabelClash, "", "ndjson"},
		{"a label that is a column of text", "query=m&time=60&format=csv", resample.CodeLabelClash, "", "ndjson"},
		{"histograms", "query=h&time=60&format=arrow", resample.CodeUnsupported, "format", "histogram_quantile"},
		{"histograms over time", "query=h&start=0&end=60&step=60&format=csv", resample.CodeUnsupported, "format", "format=json"},
		{"a string", "query=%22a%22&time=60&format=arrow", resample.CodeUnsupported, "format", "csv"},
		{"a wide string", "query=%22a%22&time=60&format=arrow&layout=wide", resample.CodeUnsupported, "format", "csv"},
		{"a series that is named as the times are", "query=time&time=60&format=arrow&layout=wide", resample.CodeLabelClash, "", "ndjson"},
		{"no time for JSON", "query=m&time=x", resample.CodeInvalidValue, "time", ""},
		{"no PromQL", "query=sum(&format=arrow", resample.CodeInvalidValue, "query", ""},
		{"no time", "query=m&time=x&format=parquet", resample.CodeInvalidValue, "time", ""},
		{"no step", "query=m&start=1&end=2&format=ndjson", resample.CodeInvalidValue, "step", ""},
		{"limit below 0", "query=m&limit=-1&format=arrow", resample.CodeInvalidValue, "limit", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := do(t, a, httptest.NewRequest(http.MethodGet, "/query?"+c.form, nil))
			var got mistaken
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), w.Body)
			require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
			require.Equal(t, []string{"error", "bad_data", c.code, c.field}, []string{got.Status, got.ErrorType, got.Code, got.Field}, w.Body)
			require.Contains(t, got.Hint, c.hint)
		})
	}
	wide := &strings.Builder{}
	wide.WriteString("load 1m\n")
	for i := range 1001 {
		fmt.Fprintf(wide, "\tn{i=\"%d\"} 1\n", i)
	}
	a = newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, wide.String()) })
	w := do(t, a, httptest.NewRequest(http.MethodGet, "/query?query=n&time=0&layout=wide&format=parquet", nil))
	require.Contains(t, w.Body.String(), resample.CodeTooManyColumns)
	w = do(t, a, httptest.NewRequest(http.MethodGet, "/query?query=n&time=0&layout=wide&format=parquet&limit=1000", nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
}

// TestTableLimits: the limits on samples, memory and time hold, and memory is given back.
func TestTableLimits(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 24 << 20, Wait: time.Millisecond})
	a := newTestAPI(t, func(o *Options) {
		o.Queryable, o.Memory = newStorage(t, manySeries()), pool
		o.Engine = newEngine(t, func(o *promql.EngineOpts) { o.MaxSamples = 100_000 })
	})
	const request = "/query?query=m&start=0&end=1200"
	for _, format := range []string{"csv", "ndjson", "arrow", "parquet"} {
		code := func(more string) int {
			return do(t, a, httptest.NewRequest(http.MethodGet, request+more+"&format="+format, nil)).Code
		}
		require.Equal(t, http.StatusOK, code("&step=10"), format)
		require.Equal(t, http.StatusUnprocessableEntity, code("&step=0.5"), format)
		require.Equal(t, http.StatusServiceUnavailable, code("&step=10&timeout=1e-9"), format)
		require.Zero(t, pool.Used(), format)
	}
	held := pool.Lease(memory.Fetched)
	require.NoError(t, held.Grow(t.Context(), 18<<20))
	defer held.Release()
	w := do(t, a, httptest.NewRequest(http.MethodGet, request+"&step=1&format=parquet", nil))
	require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
}

// TestTableCompression: Arrow streams are compressed for those who accept that; Parquet is already.
func TestTableCompression(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	for _, request := range []string{"query=m&start=0&end=1200&step=10", "metric=m&start=0&end=1200&every=10s&aggregates=mean"} {
		for format, want := range map[string]string{"arrow": "gzip", "ndjson": "gzip", "parquet": ""} {
			r := httptest.NewRequest(http.MethodGet, "/query?"+request+"&format="+format, nil)
			r.Header.Set("Accept-Encoding", "gzip")
			r.Header.Set("Origin", "http://page")
			w := do(t, a, r)
			require.Equal(t, want, w.Header().Get("Content-Encoding"), format)
			require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
			require.NotEmpty(t, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
}
