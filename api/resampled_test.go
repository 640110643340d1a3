package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
)

// mistaken is the answer to a request that is wrong.
type mistaken struct{ Status, ErrorType, Error, Code, Field, Hint string }

func postBody(t *testing.T, h http.Handler, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return do(t, h, r)
}

// TestResample: one request in the three ways of asking and the three forms of answers.
func TestResample(t *testing.T) {
	a := newTestAPI(t, nil)
	form := url.Values{"match[]": {"m"}, "start": {"0"}, "end": {"600"}, "every": {"5m"}, "aggregates": {"count,sum", "25pct"}, "by": {""}, "fill": {"null"}}
	const body = `{"match": ["m"], "start": 0, "end": 600, "granularity": "5m", "aggregates": ["count", "sum", "25pct"], "by": [], "fill": "null"}`
	const matrix = `{"resultType":"matrix","result":[` +
		`{"metric":{"aggregate":"count"},"values":[[0,"10"],[300,"10"]]},` +
		`{"metric":{"aggregate":"sum"},"values":[[0,"30"],[300,"105"]]},` +
		`{"metric":{"aggregate":"25pct"},"values":[[0,"1.25"],[300,"7.25"]]}]}`

	code, got := getJSON(t, a, "/query?"+form.Encode())
	require.Equal(t, 200, code, got.Error)
	require.JSONEq(t, matrix, string(got.Data))
	require.Empty(t, got.Warnings)
	code, got = postForm(t, a, "/query", form)
	require.Equal(t, 200, code, got.Error)
	require.JSONEq(t, matrix, string(got.Data))
	code, got = decode(t, postBody(t, a, "/query", body))
	require.Equal(t, 200, code, got.Error)
	require.JSONEq(t, matrix, string(got.Data))

	w := postBody(t, a, "/query?format=csv", body)
	require.Equal(t, "text/csv", w.Header().Get("Content-Type"))
	require.Equal(t, "timestamp,count,sum,25pct\n0,10,30,1.25\n300,10,105,7.25\n", w.Body.String())
	r := httptest.NewRequest(http.MethodGet, "/query?metric=m&start=0&end=1200&every=10m&aggregates=last,rate:max&timezone=Europe/Berlin", nil)
	r.Header.Set("Accept", "text/html, application/x-ndjson;q=0.9")
	w = do(t, a, r)
	require.Equal(t, "application/x-ndjson", w.Header().Get("Content-Type"))
	require.Equal(t, `{"metric":{"__name__":"m","i":"0"},"timestamp":0,"values":{"last":9,"rate:max":1}}
{"metric":{"__name__":"m","i":"0"},"timestamp":600,"values":{"last":19,"rate:max":1}}
{"metric":{"__name__":"m","i":"1"},"timestamp":0,"values":{"last":18,"rate:max":2}}
{"metric":{"__name__":"m","i":"1"},"timestamp":600,"values":{"last":38,"rate:max":2}}
`, w.Body.String())
}

// TestJSONBody: PromQL may be asked by a JSON body, too.
func TestJSONBody(t *testing.T) {
	a := newTestAPI(t, nil)
	code, got := decode(t, postBody(t, a, "/query", `{"query": "sum(m)", "time": 600}`))
	require.Equal(t, 200, code, got.Error)
	require.JSONEq(t, `{"resultType":"vector","result":[{"metric":{},"value":[600,"30"]}]}`, string(got.Data))
	code, got = decode(t, postBody(t, a, "/explain?format=json", `{"query": "sum(m)", "start": 0, "end": "600", "step": "1m", "analyze": true}`))
	require.Equal(t, 200, code, got.Error)
	require.Contains(t, string(got.Data), "sum(m)")
	code, got = decode(t, postBody(t, a, "/query?time=5", `{"query": "sum(m)", "time": 600}`))
	require.Equal(t, 400, code)
	require.Contains(t, got.Error, "in the body and in the URL")
}

// TestResampleFillings: what buckets without samples look like in each form of answers.
func TestResampleFillings(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, "load 5m\n  gap{a=\"x,y\"} 1 _ _ Inf NaN") })
	ask := func(more string) string {
		return do(t, a, httptest.NewRequest(http.MethodGet, "/query?metric=gap&start=0&end=1500&every=5m&aggregates=max"+more, nil)).Body.String()
	}
	require.JSONEq(t, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"gap","a":"x,y","aggregate":"max"},"values":[[0,"1"],[300,null],[600,null],[900,"+Inf"],[1200,"NaN"]]}]}}`, ask("&fill=null"))
	require.Equal(t, "__name__,a,timestamp,max\ngap,\"x,y\",0,1\ngap,\"x,y\",300,\ngap,\"x,y\",600,\ngap,\"x,y\",900,+Inf\ngap,\"x,y\",1200,NaN\n", ask("&fill=null&format=csv"))
	lines := ask("&fill=null&format=ndjson&limit=1")
	require.Equal(t, 5, strings.Count(lines, "\n"))
	require.Contains(t, lines, `"timestamp":300,"values":{"max":null}}`)
	require.Contains(t, lines, `"timestamp":900,"values":{"max":"+Inf"}}`)
	for line := range strings.Lines(lines) {
		require.True(t, json.Valid([]byte(line)), line)
	}
	require.Contains(t, ask("&fill=locf"), `[[0,"1"],[300,"1"],[600,"1"],[900,"+Inf"],[1200,"NaN"]]`)
	require.Contains(t, ask("&fill=7.5"), `[[0,"1"],[300,"7.5"],[600,"7.5"],[900,"+Inf"],[1200,"NaN"]]`)
	require.Contains(t, ask(""), `[[0,"1"],[900,"+Inf"],[1200,"NaN"]]`)
}

// TestResampleRefused: each request that is wrong is refused by a code, names its field and
// computes nothing.
func TestResampleRefused(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = newStorage(t, "load 1m\n  m{count=\"a\", aggregate=\"b\"} 1x10\n  n{count=\"a\"} 1x10\n  clash{time=\"a\"} 1x10")
		o.MaxBodyBytes = 2000
	})
	const whole = "metric=m&start=0&end=600&every=1m&aggregates=count&without=aggregate"
	with := func(more string) string {
		f, err := url.ParseQuery(whole)
		require.NoError(t, err)
		g, err := url.ParseQuery(more)
		require.NoError(t, err)
		for name, values := range g {
			if f[name] = values; values[0] == "-" {
				delete(f, name)
			}
		}
		return "/query?" + f.Encode()
	}
	for _, c := range []struct{ name, path, code, field, hint string }{
		{"no selector", with("metric=-"), resample.CodeMissingField, "match[]", "give a selector"},
		{"an empty selector", with("match[]="), resample.CodeInvalidValue, "match[]", `{job="api"}`},
		{"all series", with("match[]={a=~\".*\"}"), resample.CodeInvalidValue, "match[]", ""},
		{"PromQL, too", with("query=m"), resample.CodeConflict, "query", "leave one"},
		{"a name that is nearly one", with("agregates=sum"), resample.CodeUnknownField, "agregates", `did you mean "aggregates"?`},
		{"a name twice", with("granularity=5m"), resample.CodeRepeatedField, "granularity", "leave one"},
		{"a value twice", with("period=5m&period=6m"), resample.CodeRepeatedField, "period", "leave"},
		{"no start", with("start=-"), resample.CodeMissingField, "start", "-1h"},
		{"start that is no time", with("start=yesterday"), resample.CodeInvalidValue, "start", ""},
		{"start long ago", with("start=-1e30"), resample.CodeOutOfRange, "start", ""},
		{"nothing between", with("end=0"), resample.CodeEmptyRange, "end", "later end"},
		{"every 0", with("every=0"), resample.CodeOutOfRange, "every", ""},
		{"every below 0", with("every=-5m"), resample.CodeOutOfRange, "every", ""},
		{"every longer than all", with("every=1h"), resample.CodeOutOfRange, "every", "shorter"},
		{"every of a strange unit", with("every=5min"), resample.CodeInvalidValue, "every", ""},
		{"a million buckets", with("every=1ms&end=1000"), resample.CodeTooManyBuckets, "every", "longer"},
		{"a month in minutes", with("period=1M"), resample.CodeConflict, "period", ""},
		{"unknown zone", with("timezone=Europe/Bärlin"), resample.CodeUnknownZone, "timezone", "Europe/Berlin"},
		{"the server's zone", with("timezone=Local"), resample.CodeUnknownZone, "timezone", ""},
		{"unknown aggregate", with("aggregates=count,medin"), resample.CodeUnknownAggregate, "aggregates", `"median"`},
		{"unknown aggregate of differences", with("aggregates=rate:summ"), resample.CodeUnknownAggregate, "aggregates", `"rate:sum"`},
		{"percentile above 100", with("aggregates=101pct"), resample.CodeOutOfRange, "aggregates", ""},
		{"one aggregate by two names", with("aggregates=mean,avg"), resample.CodeRepeatedField, "aggregates", "leave one"},
		{"by and without", with("by=count"), resample.CodeConflict, "without", "leave one"},
		{"by the answer's label", with("by=aggregate&without=-"), resample.CodeLabelClash, "by", "other labels"},
		{"reaggregate by what cannot", with("reaggregate=last"), resample.CodeUnknownAggregate, "reaggregate", "count"},
		{"unknown filling", with("fill=zero"), resample.CodeInvalidValue, "fill", ""},
		{"closed in the middle", with("closed=middle"), resample.CodeInvalidValue, "closed", ""},
		{"timeout that is none", with("timeout=1ns"), resample.CodeInvalidValue, "timeout", ""},
		{"limit below 0", with("limit=-1"), resample.CodeInvalidValue, "limit", ""},
		{"a format that is none", with("format=xml"), resample.CodeInvalidValue, "format", "ndjson"},
		{"Prometheus's engine", with("executor=prometheus"), resample.CodeUnsupported, "executor", "cpu"},
		{"a GPU and nothing else", with("executor=gpu&strict=true"), resample.CodeUnsupported, "executor", "cpu"},
		{"series with the answer's label", with("without=-"), resample.CodeLabelClash, "", "without=aggregate"},
		{"a table with one column twice", with("metric=n&format=csv"), resample.CodeLabelClash, "", "ndjson"},
		{"a file with one column twice", with("metric=clash&format=parquet&aggregates=sum"), resample.CodeLabelClash, "", "ndjson"},
		{"a wide table of text", with("layout=wide&format=csv"), resample.CodeConflict, "layout", "format=arrow"},
		{"a wide table of JSON", with("layout=wide"), resample.CodeConflict, "layout", "format=arrow"},
		{"a layout that is none", with("layout=narrow&format=arrow"), resample.CodeInvalidValue, "layout", "long or wide"},
		{"a stream with an explanation", with("metric=n&format=arrow&explain=true"), resample.CodeConflict, "explain", "/explain"},
		{"a table with an explanation", with("metric=n&format=csv&aggregates=sum&explain=true"), resample.CodeConflict, "explain", "/explain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := do(t, a, httptest.NewRequest(http.MethodGet, c.path, nil))
			var got mistaken
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), w.Body)
			require.Equal(t, http.StatusBadRequest, w.Code, w.Body)
			require.Equal(t, []string{"error", "bad_data", c.code, c.field}, []string{got.Status, got.ErrorType, got.Code, got.Field}, w.Body)
			require.Contains(t, got.Hint, c.hint)
			require.Contains(t, got.Error, got.Hint)
		})
	}
	for body, code := range map[string]string{
		``: resample.CodeBadJSON, `[]`: resample.CodeBadJSON, `{"metric":"m"`: resample.CodeBadJSON, `{"metric":"m"} x`: resample.CodeBadJSON,
		`{"metric":{"a":1}}`: resample.CodeInvalidValue, `{"every":null,"metric":"m","start":0,"aggregates":"sum"}`: resample.CodeMissingField,
	} {
		w := postBody(t, a, "/query", body)
		var got mistaken
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), w.Body)
		require.Equal(t, []any{400, code}, []any{w.Code, got.Code}, "%s: %s", body, w.Body)
	}
	w := postBody(t, a, "/query", `{"match[]":[],"start":0,"every":"1m","aggregates":"count"}`)
	require.Contains(t, w.Body.String(), "there is no selector in it")
	w = postBody(t, a, "/query", `{"metric":"`+strings.Repeat("m", 3000)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, w.Body)
}

// TestResampleLimits: the limits on series, samples, memory and time hold.
func TestResampleLimits(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 4 << 20, Wait: time.Millisecond})
	ask := func(o resample.Options, more string) (int, answer) {
		a := newTestAPI(t, func(options *Options) { options.Resample = resample.New(o) })
		return getJSON(t, a, "/query?metric=m&start=0&every=1m&aggregates=count"+more)
	}
	code, got := ask(resample.Options{}, "&end=7200&limit=1")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"results truncated due to limit"}, got.Warnings)
	require.Equal(t, 1, strings.Count(string(got.Data), "metric"))
	code, got = ask(resample.Options{}, "&end=7200&limit=2&executor=gpu")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"executor=gpu: the request is not on a GPU: no GPU is used"}, got.Warnings)

	code, got = ask(resample.Options{MaxSamples: 239}, "&end=7200")
	require.Equal(t, 422, code)
	require.Contains(t, got.Error, promql.ErrTooManySamples("").Error())
	code, _ = ask(resample.Options{MaxSamples: 240, Memory: pool}, "&end=7200")
	require.Equal(t, 200, code)
	code, _ = ask(resample.Options{MaxSamples: 480}, "&end=7200&aggregates=median&by=")
	require.Equal(t, 200, code)
	code, _ = ask(resample.Options{MaxSamples: 300}, "&end=7200&aggregates=median&by=")
	require.Equal(t, 422, code)
	code, got = ask(resample.Options{MaxMemory: 1000}, "&end=7200")
	require.Equal(t, 422, code)
	require.Contains(t, got.Error, "more than 1000 bytes of memory")
	code, got = ask(resample.Options{Memory: pool, MaxSamples: 1e9}, "&fill=0&end=18000000")
	require.Equal(t, 422, code, got.Error)
	require.Contains(t, got.Error, "--memory.limit")
	code, got = ask(resample.Options{}, "&end=7200&timeout=1e-9")
	require.Equal(t, 503, code)
	require.Equal(t, "timeout", got.ErrorType)
	require.Zero(t, pool.Used())
}

// TestResampleExplained: how a request is computed, and what it took.
func TestResampleExplained(t *testing.T) {
	a := newTestAPI(t, nil)
	const request = "?metric=m&start=0&end=3600&every=10m&aggregates=mean,rate:median&by="
	var planned, run resample.Explanation
	_, got := getJSON(t, a, "/explain"+request)
	require.NoError(t, json.Unmarshal(got.Data, &planned))
	require.Equal(t, 6, planned.Buckets)
	require.Equal(t, []resample.Pass{{Of: "samples", Aggregates: []string{"mean"}, Parts: []string{"mean", "sum", "count"}}, {Of: "differences", Aggregates: []string{"rate:median"}, Parts: []string{"count", "values"}}}, planned.Passes)
	require.Nil(t, planned.Work)
	_, got = getJSON(t, a, "/explain"+request+"&analyze=true")
	require.NoError(t, json.Unmarshal(got.Data, &run))
	work := run.Work
	require.Equal(t, []int64{2, 24, 12}, []int64{work.Series, work.Runs, work.Values})
	require.NotZero(t, work.Bytes)
	require.Len(t, work.Stages, 6)
	require.Positive(t, work.Stages[3].Micros, work.Stages[3].Name)
	_, got = getJSON(t, a, "/query"+request+"&explain=true")
	require.Contains(t, string(got.Data), `"explanation":{"executor":"cpu"`)
}

// TestCustomAggregates: those of the configuration and of the request, what explains them, and what
// is wrong with some.
func TestCustomAggregates(t *testing.T) {
	var err error
	change := func(o *Options) {
		o.DefineAggregates = true
		o.Aggregates, err = custom.AddTo(aggregate.Library{}, []custom.Source{{
			Name: "power", State: map[string]string{"sum": "0"}, Add: map[string]string{"sum": "sum + v*v"}, Merge: map[string]string{"sum": "a.sum + b.sum"}, Result: "sum",
		}})
		require.NoError(t, err)
	}
	a := newTestAPI(t, change)
	const body = `{"metric": "m", "start": 0, "end": 600, "every": "5m", "aggregates": ["power", "sum", "longest"], "by": [], "define":
		{"name": "longest", "state": {"ms": 0}, "add": {"ms": "max(ms, exp(log(t - prev_t)))"}, "result": "ms"}}`
	code, got := decode(t, postBody(t, a, "/query", body))
	require.Equal(t, 200, code, got.Error)
	require.Contains(t, string(got.Data), `{"metric":{"aggregate":"power"},"values":[[0,"150"],[300,"1275"]]}`)
	var x resample.Explanation
	_, got = decode(t, postBody(t, a, "/explain", body))
	require.NoError(t, json.Unmarshal(got.Data, &x))
	require.Len(t, x.Passes, 3)
	require.Equal(t, "custom: 2 instructions a sample", x.Passes[0].Note)
	require.Empty(t, x.Passes[2].Note)
	require.Equal(t, []string{"sum"}, x.Passes[2].Aggregates)
	require.Equal(t, "custom: 4 instructions a sample, on cores alone: exp and log would have other bits on a GPU; without merge, the samples of a group are held and put in the order of time, by cores", x.Passes[1].Note)

	var wrong mistaken
	w := postBody(t, a, "/query", strings.Replace(body, "max(ms", "max(m", 1))
	require.Equal(t, 400, w.Code)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &wrong))
	require.Equal(t, mistaken{
		"error", "bad_data", `invalid parameter "define": aggregate "longest", add.ms, line 1, column 5: there is no "m"; there are first, ms, prev_t, prev_v, t, v`,
		"invalid_aggregate", "define", "there are first, ms, prev_t, prev_v, t, v",
	}, wrong)
	w = postBody(t, newTestAPI(t, nil), "/query", body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &wrong))
	require.Equal(t, []string{"unsupported", "define"}, []string{wrong.Code, wrong.Field})
}
