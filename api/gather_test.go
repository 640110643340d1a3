package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/internal/memory"
)

// severalUpstreams is an API over servers that answer a path with what answers
// says of it: an answer's data, or with a colon a status and a body. The last one
// is optional.
func severalUpstreams(t *testing.T, answers ...map[string]string) (*API, []*upstreamServer) {
	var servers []*upstreamServer
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = failing{}
		for i, data := range answers {
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				say := data[strings.TrimPrefix(r.URL.Path, "/prefix/api/v1")]
				switch code, body, isError := strings.Cut(say, ":"); {
				case isError && len(code) == 3:
					w.WriteHeader(map[string]int{"400": 400, "503": 503, "401": 401}[code])
					_, _ = io.WriteString(w, body)
				case say == "cut":
					w.Header().Set("Content-Length", "1000")
					_, _ = io.WriteString(w, `{"status":`)
					w.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				default:
					_, _ = io.WriteString(w, `{"status":"success","data":`+say+`,"warnings":["common"]}`)
				}
			})
			servers = append(servers, u)
			o.Remotes = append(o.Remotes, &forward.Remote{Name: u.URL, Base: u.base, Transport: secret{}, Optional: i == len(answers)-1})
		}
	})
	return a, servers
}

func TestListsOfSeveralUpstreams(t *testing.T) {
	a, servers := severalUpstreams(t, map[string]string{
		"/labels":             `["b","d"]`,
		"/label/job/values":   `["b","d"]`,
		"/series":             `[{"__name__":"m","a":"2"},{"__name__":"n"}]`,
		"/metadata":           `{"m":[{"type":"gauge","help":"h","unit":""}],"n":[{"type":"counter","help":"","unit":""}]}`,
		"/targets":            `{"activeTargets":[{"scrapePool":"a"}],"droppedTargets":[],"droppedTargetCounts":{"a":2,"b":1}}`,
		"/rules":              `{"groups":[{"name":"g"}]}`,
		"/query_exemplars":    `[]`,
		"/alerts":             `{"alerts":null}`,
		"/targets/metadata":   `[{"metric":"m"}]`,
		"/label/a%2Fb/values": `[]`,
	}, map[string]string{
		"/labels":           `["a","b","c"]`,
		"/label/job/values": `[]`,
		"/series":           `[{"__name__":"m","a":"1"},{"a":"2","__name__":"m"}]`,
		"/metadata":         `{"m":[{"type":"gauge","help":"h","unit":""},{"type":"counter","help":"h","unit":""}]}`,
		"/targets":          `{"activeTargets":[{"scrapePool":"b"}],"droppedTargets":[],"droppedTargetCounts":{"a":40}}`,
		"/rules":            `{"groups":[{"name":"g","file":"other"}]}`,
		"/query_exemplars":  `[{"seriesLabels":{"a":"b"}}]`,
		"/alerts":           `{"alerts":[{"value":"1e+00"}]}`,
		"/targets/metadata": `[{"metric":"m"}]`,
	})
	for path, want := range map[string]string{
		"/labels":                     `["a","b","c","d"]`,
		"/labels?limit=10":            `["a","b","c","d"]`,
		"/label/job/values?match[]=m": `["b","d"]`,
		"/series?match[]=m":           `[{"__name__":"m","a":"1"},{"__name__":"m","a":"2"},{"__name__":"n"}]`,
		"/metadata":                   `{"m":[{"type":"gauge","help":"h","unit":""},{"type":"counter","help":"h","unit":""}],"n":[{"type":"counter","help":"","unit":""}]}`,
		"/targets":                    `{"activeTargets":[{"scrapePool":"a"},{"scrapePool":"b"}],"droppedTargets":[],"droppedTargetCounts":{"a":42,"b":1}}`,
		"/rules":                      `{"groups":[{"name":"g"},{"name":"g","file":"other"}]}`,
		"/query_exemplars":            `[{"seriesLabels":{"a":"b"}}]`,
		"/alerts":                     `{"alerts":[{"value":"1e+00"}]}`,
		"/targets/metadata":           `[{"metric":"m"}]`,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://promwarp/api/v1"+path, nil)
		r.Header.Set("Authorization", "Bearer client")
		r.Header.Set("Accept-Encoding", "zstd")
		r.Header.Set("Origin", "http://page")
		w := do(t, a, r)
		require.Equal(t, 200, w.Code, path)
		require.JSONEq(t, `{"status":"success","data":`+want+`,"warnings":["common"]}`, w.Body.String(), path)
		require.Equal(t, []string{"*"}, w.Header().Values("Access-Control-Allow-Origin"))
		for _, u := range servers {
			require.Equal(t, "/prefix/api/v1"+path, u.got.RequestURI)
			require.Equal(t, "Bearer promwarp", u.got.Header.Get("Authorization"))
			require.NotEqual(t, "zstd", u.got.Header.Get("Accept-Encoding"))
		}
	}

	w := do(t, a, httptest.NewRequest(http.MethodGet, "/api/v1/labels?limit=3", nil))
	require.JSONEq(t, `{"status":"success","data":["a","b","c"],"warnings":["common","results truncated due to limit"]}`, w.Body.String())

	form := url.Values{"match[]": {`m{a="b"}`}, "limit": {"1"}}
	code, _ := postForm(t, a, "/api/v1/series", form)
	require.Equal(t, 200, code)
	for _, u := range servers {
		require.Equal(t, http.MethodPost, u.got.Method)
		require.Equal(t, form.Encode(), u.body)
	}

	for path, want := range map[string]int{"/status/tsdb": 404, "/rules?group_limit=1": 400} {
		code, got := getJSON(t, a, "/api/v1"+path)
		require.Equal(t, want, code)
		require.Contains(t, got.Error, "several servers")
	}
}

func TestFailuresOfListsOfSeveralUpstreams(t *testing.T) {
	ok, fails := `["a"]`, `503:{"status":"error","errorType":"unavailable","error":"theirs"}`
	for name, c := range map[string]struct {
		required, optional string
		code               int
		want               string
	}{
		"optional":           {ok, fails, 200, "theirs"},
		"required":           {fails, ok, 503, "theirs"},
		"both":               {fails, fails, 503, "theirs"},
		"credentials":        {"401:", ok, 502, "refused promwarp's credentials"},
		"optional's":         {ok, "401:", 200, "refused promwarp's credentials"},
		"bad request":        {`400:{"status":"error","errorType":"bad_data","error":"unknown"}`, ok, 400, "unknown"},
		"breaks off":         {"cut", ok, 502, "broke off"},
		"optional breaks":    {ok, "cut", 200, "broke off"},
		"no Prometheus":      {"503:<html>", ok, 502, "which no Prometheus does"},
		"no Prometheus, too": {ok, "503:<html>", 200, "which no Prometheus does"},
	} {
		t.Run(name, func(t *testing.T) {
			a, servers := severalUpstreams(t, map[string]string{"/labels": c.required}, map[string]string{"/labels": c.optional})
			srv := httptest.NewServer(a) // a proxy panics where there is one
			defer srv.Close()
			resp, err := http.Get(srv.URL + "/api/v1/labels")
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, c.code, resp.StatusCode)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), c.want)
			if c.code == 200 {
				require.Contains(t, string(body), `"data":["a"]`)
				require.Contains(t, string(body), "partial answer, without anything of the upstream "+servers[1].URL)
			}
		})
	}

	a, servers := severalUpstreams(t, map[string]string{"/labels": ok}, map[string]string{"/labels": ok})
	servers[1].Close()
	code, got := getJSON(t, a, "/api/v1/labels")
	require.Equal(t, 200, code)
	require.Contains(t, got.Warnings[1], "check that it runs")
	servers[0].Close()
	code, got = getJSON(t, a, "/api/v1/labels")
	require.Equal(t, 502, code)
	require.Contains(t, got.Error, servers[0].URL)
}

// Lists that promwarp puts together take memory as long as it does.
func TestListsTakeMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 4 << 20, Wait: time.Millisecond})
	values := strings.Repeat(`"a value of forty bytes, which come again",`, 1000)
	kept := func() labels.Labels { return labels.FromStrings("region", "eu") }
	for name, servers := range map[string][]func() labels.Labels{"two servers": {nil, nil}, "labels of its own": {kept}} {
		t.Run(name, func(t *testing.T) {
			var times atomic.Int64
			a := newTestAPI(t, func(o *Options) {
				o.Memory, o.Queryable = pool, failing{}
				for _, kept := range servers {
					u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
						_, _ = io.WriteString(w, `{"status":"success","data":[`+strings.Repeat(values, int(times.Load()))+`"a"]}`)
					})
					o.Remotes = append(o.Remotes, &forward.Remote{Name: u.URL, Base: u.base, Kept: kept})
				}
			})
			times.Store(1)
			code, _ := getJSON(t, a, "/api/v1/labels")
			require.Equal(t, 200, code)
			times.Store(10)
			code, got := getJSON(t, a, "/api/v1/labels")
			require.Equal(t, 422, code, "it could never be put together")
			require.Contains(t, got.Error, "memory")

			all := pool.Lease(memory.Evaluation)
			require.NoError(t, all.Grow(t.Context(), 3<<20))
			times.Store(1)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/labels", nil))
			require.Equal(t, 503, w.Code, "others have the memory")
			require.NotEmpty(t, w.Header().Get("Retry-After"))
			all.Release()
			require.Zero(t, pool.Parts()[string(memory.Answers)])
		})
	}
}
