package api

import (
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	v1 "github.com/prometheus/prometheus/web/api/v1"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine"
)

// manySeries are enough for answers that are streamed.
func manySeries() string {
	var b strings.Builder
	b.WriteString("load 15s\n")
	for i := range 60 {
		fmt.Fprintf(&b, "\tm{i=\"%d\",odd=\"<&>\\\"\u2028\"} %d+%d.37x60 _x9 1 2 NaN -Inf\n", i, i, i)
		fmt.Fprintf(&b, "\tc_total{i=\"%d\"} 0+%dx80\n", i, i)
	}
	b.WriteString("\th{i=\"0\"} {{schema:1 sum:-0.3 count:3.1 z_bucket:7.1 z_bucket_w:0.05 buckets:[5.1 10 7]}}x60\n")
	return b.String()
}

// timings are what differs from run to run.
var timings = regexp.MustCompile(`"timings":\{[^}]*\}`)

// fetch gets an answer from a server and decompresses it.
func fetch(t *testing.T, base, path string, form url.Values, encoding string) (body string, h http.Header, code int) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, base+path+"?"+form.Encode(), nil)
	require.NoError(t, err)
	r.Header.Set("Origin", "http://page")
	// Set here, it is not undone by the transport.
	r.Header.Set("Accept-Encoding", encoding)
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	from := resp.Body
	switch resp.Header.Get("Content-Encoding") {
	case "gzip":
		from, err = gzip.NewReader(resp.Body)
	case "deflate":
		from, err = zlib.NewReader(resp.Body)
	default:
		resp.Header.Set("Body-Length", fmt.Sprint(resp.ContentLength))
	}
	require.NoError(t, err)
	b, err := io.ReadAll(from)
	require.NoError(t, err)
	resp.Header.Del("Date")
	resp.Header.Del("Content-Length") // of compressed bytes, or noted above
	if encoding != "identity" {
		resp.Header.Del("Content-Encoding") // short answers are compressed by Prometheus alone
		resp.Header.Del("Body-Length")
	}
	return timings.ReplaceAllString(string(b), ""), resp.Header, resp.StatusCode
}

// TestSameBytesAsPrometheus compares answers with those of Prometheus's API as
// it comes, over the same engine and data.
func TestSameBytesAsPrometheus(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	here := httptest.NewServer(a)
	defer here.Close()
	plain := handlerOf(a.prometheusAPI(a.described()))
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		plain.ServeHTTP(w, r.WithContext(engine.WithStatistics(r.Context()))) // Prometheus's engine always counts
	}))
	defer there.Close()

	streamed := 0
	for _, c := range []url.Values{
		{"query": {"m"}},
		{"query": {"m / 7"}},
		{"query": {"-m"}},
		{"query": {"m"}, "limit": {"40"}},
		{"query": {"m"}, "limit": {"1"}},
		{"query": {"m"}, "stats": {"all"}},
		{"query": {"rate(m[1m])"}, "stats": {"true"}}, // with an info
		{"query": {"rate(c_total[1m])"}},
		{"query": {"sort(c_total)"}},
		{"query": {"m or h"}},
		{"query": {"h"}},
		{"query": {"rate(h[2m])"}},
		{"query": {`quantile(2, m)`}}, // with a warning
		{"query": {`label_replace(m, "j", "$1", "i", "(.*)") / 3`}},
		{"query": {"sum(m)"}},
		{"query": {"1e300"}},
		{"query": {"nothing"}},
		{"query": {"m["}},
		{"query": {"m * on() m"}},
		{"query": {"m"}, "limit": {"-1"}},
		{"query": {"m[20m]"}},
		{"query": {"m[20m] @ 600"}, "time": {"600"}},
		{"query": {`"<&>\u2028"`}},
		{"query": {"time()"}, "time": {"600.123"}},
		{"query": {"m"}, "time": {"600.123"}},
		{"query": {"h"}, "time": {"600"}},
	} {
		for _, path := range []string{"/api/v1/query", "/api/v1/query_range"} {
			form := url.Values{}
			for k, v := range c {
				form[k] = v
			}
			if path == "/api/v1/query_range" {
				form.Set("start", "0")
				form.Set("end", "1200.5")
				form.Set("step", "2.5")
				form.Del("time")
			} else if form.Get("time") == "" {
				form.Set("time", "900")
			}
			for _, encoding := range []string{"identity", "gzip", "deflate", "br, gzip"} {
				what := fmt.Sprint(path, " ", form, " ", encoding)
				want, wantHeader, wantCode := fetch(t, there.URL, path, form, encoding)
				got, gotHeader, gotCode := fetch(t, here.URL, path, form, encoding)
				require.Equal(t, wantCode, gotCode, what)
				wantHeader.Set("X-Content-Type-Options", "nosniff") // on all of promwarp's answers
				require.Equal(t, wantHeader, gotHeader, what)
				if want != got {
					i := 0
					for i < min(len(want), len(got)) && want[i] == got[i] {
						i++
					}
					t.Fatalf("%s: byte %d of %d and %d:\nwant …%.150q\ngot  …%.150q", what, i, len(want), len(got), want[max(0, i-50):], got[max(0, i-50):])
				}
				if len(got) > 20*minStreamed && !strings.Contains(got, "histogram") {
					streamed++
				}
			}
		}
	}
	require.Greater(t, streamed, 10)
}

// countingWriter notes the largest write.
type countingWriter struct {
	*httptest.ResponseRecorder
	largest int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.largest = max(w.largest, len(p))
	return w.ResponseRecorder.Write(p)
}

func TestLargeAnswersAreStreamed(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	for _, path := range []string{
		"/api/v1/query_range?query=m&start=0&end=1200&step=1",
		"/query?query=m&start=0&end=1200&step=1&limit=50",
	} {
		w := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Greater(t, w.Body.Len(), 1_000_000)
		require.Less(t, w.largest, w.Body.Len()/4)
		require.True(t, strings.HasPrefix(w.Body.String(), `{"status":"success"`) && strings.HasSuffix(w.Body.String(), "}"))

		w = &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		path = strings.Replace(path, "/api/v1/query_range", "/query", 1)
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"&format=csv", nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.LessOrEqual(t, w.largest, 64<<10)
		require.True(t, strings.HasPrefix(w.Body.String(), "__name__,"))
		require.Greater(t, strings.Count(w.Body.String(), "\n"), 50_000)
	}
}

// closing is a client that goes away.
type closing struct {
	*httptest.ResponseRecorder
	left int
}

func (w *closing) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestClientGoneWhileStreaming(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	for _, left := range []int{0, 100, 500_000} {
		w := &closing{httptest.NewRecorder(), left}
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/query?query=m&start=0&end=1200&step=1", nil))
		require.Equal(t, http.StatusOK, w.Code)
	}
}

func TestConcurrentStreams(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	var wg sync.WaitGroup
	for i := range 4 {
		path := fmt.Sprintf("/query?query=m%%2b%d&start=0&end=1200&step=1", i)
		want := httptest.NewRecorder()
		handlerOf(a.prometheusAPI(a.described())).ServeHTTP(want, httptest.NewRequest(http.MethodGet, strings.Replace(path, "/query", "/api/v1/query_range", 1), nil))
		wg.Go(func() {
			for range 4 {
				got := httptest.NewRecorder()
				a.ServeHTTP(got, httptest.NewRequest(http.MethodGet, path, nil))
				if got.Body.String() != want.Body.String() {
					t.Errorf("%s: answers differ", path)
				}
			}
		})
	}
	wg.Wait()
}

// A value with a stream is encoded like one without. Of a large one the rest waits in the
// stream; another request for the same value has a stream of its own.
func TestStreamedValue(t *testing.T) {
	m := promql.Matrix{{Metric: labels.FromStrings("a", "b"), Floats: make([]promql.FPoint, 2*minStreamed)}, {}}
	want, err := v1.JSONCodec{}.Encode(&v1.Response{Status: "success", Data: &v1.QueryData{ResultType: m.Type(), Result: m[:1]}})
	require.NoError(t, err)
	for range 2 {
		w := httptest.NewRecorder()
		s := &stream{ResponseWriter: w, limit: 1}
		r := &promql.Result{Value: m}
		s.claim(r)
		require.Equal(t, []string{"results truncated due to limit"}, errorTexts(r.Warnings.AsErrors()))
		got, err := jsonCodec{}.Encode(&v1.Response{Status: "success", Data: &v1.QueryData{ResultType: m.Type(), Result: r.Value}})
		require.NoError(t, err)
		require.Less(t, len(got), 100)
		_, err = s.Write(got)
		require.NoError(t, err)
		require.Equal(t, string(want), w.Body.String())
	}
}

func errorTexts(errs []error) (texts []string) {
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}
