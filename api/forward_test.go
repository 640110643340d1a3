package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/forward"
)

// upstreamServer is a server that notes the last request it got.
type upstreamServer struct {
	*httptest.Server
	base *url.URL
	got  *http.Request
	body string
}

func newUpstream(t *testing.T, h http.HandlerFunc) *upstreamServer {
	u := &upstreamServer{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		u.got, u.body = r, string(b)
		h(w, r)
	}))
	t.Cleanup(u.Close)
	u.base, _ = url.Parse(u.URL + "/prefix")
	return u
}

func (u *upstreamServer) api(t *testing.T, change func(*Options)) *API {
	return newTestAPI(t, func(o *Options) {
		o.Queryable = failing{}
		o.Remotes = []*forward.Remote{{Name: u.URL, Base: u.base}}
		if change != nil {
			change(o)
		}
	})
}

// secret is a transport that adds promwarp's own credentials.
type secret struct{}

func (secret) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer promwarp")
	return http.DefaultTransport.RoundTrip(r)
}

func TestForwarding(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "upstream=1")
		w.Header().Set("Access-Control-Allow-Origin", "http://elsewhere")
		_, _ = io.WriteString(w, `{"status":"success","data":["forwarded"]}`)
	})
	a := u.api(t, func(o *Options) { o.Remotes[0].Transport = secret{} })
	for _, path := range []string{
		"/labels?match[]=m&start=1", "/label/job/values?limit=5", "/label/a%2Fb%25c/values", "/label/U__a_2f_b/values",
		"/series?match[]=%7Bjob%3D%22a%26b%22%7D", "/metadata?metric=m", "/targets?state=active", "/targets/metadata",
		"/rules?type=alert", "/alerts", "/alertmanagers", "/query_exemplars?query=m", "/status/tsdb", "/scrape_pools",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://promwarp/api/v1"+path, nil)
		for k, v := range map[string]string{
			"Authorization": "Bearer client", "Cookie": "session=1", "Proxy-Authorization": "Basic eDp5", "X-Scope-OrgID": "other",
			"X-Forwarded-For": "10.0.0.1", "Connection": "X-Secret", "X-Secret": "1", "Origin": "http://page",
			"Accept-Encoding": "zstd", "User-Agent": "Grafana/13",
		} {
			r.Header.Set(k, v)
		}
		w := do(t, a, r)
		require.Equal(t, 200, w.Code, path)
		require.JSONEq(t, `{"status":"success","data":["forwarded"]}`, w.Body.String())
		require.Equal(t, "/prefix/api/v1"+path, u.got.RequestURI)
		require.Equal(t, u.base.Host, u.got.Host)
		require.Equal(t, "Bearer promwarp", u.got.Header.Get("Authorization"))
		require.Equal(t, "zstd", u.got.Header.Get("Accept-Encoding"))
		require.Equal(t, "Grafana/13", u.got.Header.Get("User-Agent"))
		for _, k := range []string{"Cookie", "Proxy-Authorization", "X-Scope-OrgID", "X-Forwarded-For", "X-Secret", "Origin"} {
			require.Empty(t, u.got.Header.Values(k), k)
		}
		require.Empty(t, w.Header().Values("Set-Cookie"))
		require.Equal(t, []string{"*"}, w.Header().Values("Access-Control-Allow-Origin"))
	}

	form := url.Values{"match[]": {`m{a="b"}`}, "start": {"1"}}
	for _, path := range []string{"/labels", "/series", "/query_exemplars"} {
		code, _ := postForm(t, a, "/api/v1"+path, form)
		require.Equal(t, 200, code)
		require.Equal(t, http.MethodPost, u.got.Method)
		require.Equal(t, form.Encode(), u.body)
	}
	// What is evaluated is not forwarded, and what is refused neither.
	u.got = nil
	code, _ := getJSON(t, a, "/api/v1/query?query=1")
	require.Equal(t, 200, code)
	code, _ = postForm(t, a, "/api/v1/admin/tsdb/delete_series", form)
	require.Equal(t, 500, code)
	require.Nil(t, u.got)
}

// TestForwardedPages: what no Prometheus answers is not passed on, least of all HTML.
func TestForwardedPages(t *testing.T) {
	for _, c := range []struct {
		typ  string
		code int
		want int
	}{
		{"application/json", 200, 200}, {"application/json; charset=utf-8", 400, 400}, {"application/x-ndjson; charset=utf-8", 200, 200}, {"text/plain; charset=utf-8", 404, 404},
		{"text/html", 200, 502}, {"TEXT/HTML; charset=utf-8", 502, 502}, {"application/xhtml+xml", 200, 502}, {"image/svg+xml", 200, 502}, {"", 200, 502}, {"?", 200, 502},
	} {
		u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = []string{c.typ}
			w.Header().Set("X-Content-Type-Options", "none")
			w.WriteHeader(c.code)
			_, _ = io.WriteString(w, `{"status":"success","data":["<script>"]}`)
		})
		for _, path := range []string{"/api/v1/labels", "/api/v1/status/tsdb"} {
			w := do(t, u.api(t, nil), httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(t, c.want, w.Code, "%+v", c)
			require.Equal(t, []string{"nosniff"}, w.Header().Values("X-Content-Type-Options"))
			if c.want == 502 {
				require.NotContains(t, w.Body.String(), "script", "%+v", c)
				require.Contains(t, w.Body.String(), "content of type", "%+v", c)
			}
		}
	}
}

func TestForwardingWithCredentialsInTheURL(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {})
	u.base.User = url.UserPassword("me", "pass")
	do(t, u.api(t, nil), httptest.NewRequest(http.MethodGet, "/api/v1/labels", nil))
	name, password, _ := u.got.BasicAuth()
	require.Equal(t, "me:pass", name+":"+password)
}

func TestForwardedErrors(t *testing.T) {
	status := 0
	block := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if status == 0 {
			<-block
			return
		}
		w.Header().Set("WWW-Authenticate", "Basic")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"status":"error","errorType":"bad_data","error":"theirs"}`)
	})
	a := u.api(t, func(o *Options) { o.Timeout = 200 * time.Millisecond })

	status = 400
	code, got := getJSON(t, a, "/api/v1/labels")
	require.Equal(t, 400, code)
	require.Equal(t, "theirs", got.Error)

	for _, status = range []int{401, 403, 407} {
		w := do(t, a, httptest.NewRequest(http.MethodGet, "/api/v1/labels", nil))
		require.Empty(t, w.Header().Get("WWW-Authenticate"))
		code, got = decode(t, w)
		require.Equal(t, 502, code)
		require.Equal(t, "unavailable", got.ErrorType)
		require.Contains(t, got.Error, "credentials")
	}

	status = 0
	code, got = getJSON(t, a, "/api/v1/labels")
	close(block)
	require.Equal(t, 503, code)
	require.Equal(t, "timeout", got.ErrorType)
	require.Contains(t, got.Error, u.URL)

	u.Close()
	code, got = getJSON(t, a, "/api/v1/label/job/values")
	require.Equal(t, 502, code)
	require.Equal(t, "error", got.Status)
	require.Equal(t, "unavailable", got.ErrorType)
	require.Contains(t, got.Error, u.URL)
	require.Contains(t, got.Error, "check that it runs")
}

func TestUnknownBase(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = failing{}
		o.Remotes = []*forward.Remote{{Name: "http://store/custom/read"}}
	})
	for _, path := range []string{"labels", "label/job/values", "metadata", "rules", "status/tsdb"} {
		code, got := getJSON(t, a, "/api/v1/"+path)
		require.Equal(t, 501, code)
		require.Equal(t, "unavailable", got.ErrorType)
		require.Contains(t, got.Error, "http://store/custom/read")
		require.Contains(t, got.Error, "upstream.url")
	}
}

func TestAnswerBrokenOffIsNotWhole(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"status":`)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	srv := httptest.NewServer(u.api(t, nil))
	defer srv.Close()
	resp, err := http.Get(srv.URL + "/api/v1/labels")
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	require.Error(t, err)
	require.False(t, strings.Contains(err.Error(), "panic"))
}
