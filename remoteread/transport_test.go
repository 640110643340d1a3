package remoteread

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/golang/snappy"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/remoteread/answer/answertest"
	"github.com/promwarp/promwarp/selection"
)

// TestRedirects: a redirect is followed where the request stays what it is, and no
// credentials go to where it leads.
func TestRedirects(t *testing.T) {
	good := frames(wireSeries(0, 100, "__name__", "a"))
	var got []*http.Request
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Clone(r.Context()))
		streamed(w, good)
	}))
	defer elsewhere.Close()
	for _, c := range []struct {
		code int
		to   string
		want string // an error; empty where it is followed
	}{
		{307, elsewhere.URL + "/read", ""},
		{308, elsewhere.URL + "/read", ""},
		{301, elsewhere.URL + "/read", "HTTP status 301 Moved Permanently to " + elsewhere.URL + "/read; set the URL"},
		{302, elsewhere.URL + "/read?token=hidden", "HTTP status 302 Found to " + elsewhere.URL + "/read; set the URL"},
		{303, elsewhere.URL + "/read", "HTTP status 303 See Other to"},
		{307, "", "stopped after 10 redirects"},
		{307, "http://u:hidden@127.0.0.1:1/?token=hidden", "no answer"},
	} {
		got = nil
		base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
			require.Equal(t, http.MethodPost, r.Method)
			require.NotEmpty(t, r.Header.Get("Authorization"))
			require.Equal(t, "hidden-header", r.Header.Get("X-Api-Key"))
			to := c.to
			if to == "" {
				to = r.URL.RequestURI()
			}
			http.Redirect(w, r, to, c.code)
		})
		cfg := readConfig(t, strings.Replace(base, "http://", "http://user:hidden-password@", 1)+"?token=hidden-token")
		cfg.Headers = map[string]string{"X-Api-Key": "hidden-header"}
		cfg.HTTPClientConfig.Authorization = &commonconfig.Authorization{Type: "Bearer", Credentials: "hidden-bearer"}
		o := quick()
		o.Retries = -1
		sel, _, err := newClient(t, cfg, o).Fetch(t.Context(), 0, hour, anything, selection.Fetch{})
		if c.want != "" {
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hidden")
			require.LessOrEqual(t, requests.Load(), int64(10))
			require.Empty(t, got)
			continue
		}
		require.NoError(t, err, c.code)
		require.Equal(t, 1, sel.NumSeries())
		require.Len(t, got, 1)
		require.Equal(t, http.MethodPost, got[0].Method)
		for name, values := range got[0].Header {
			require.NotContains(t, strings.Join(values, " "), "hidden", name)
			require.NotContains(t, []string{"Authorization", "Referer", "X-Api-Key"}, name)
		}
	}
}

// Headers go to another path of the same server, which a redirect may lead to.
func TestRedirectWithinTheServer(t *testing.T) {
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		require.Equal(t, "tenant", r.Header.Get("X-Scope-OrgID"))
		require.Empty(t, r.Header.Get("Referer"))
		if n == 1 {
			http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
			return
		}
		require.Equal(t, "/elsewhere", r.URL.Path)
		streamed(w, nil)
	})
	cfg := readConfig(t, base)
	cfg.Headers = map[string]string{"X-Scope-OrgID": "tenant"}
	_, _, err := newClient(t, cfg, quick()).Fetch(t.Context(), 0, hour, anything, selection.Fetch{})
	require.NoError(t, err)
	require.EqualValues(t, 2, requests.Load())
}

// TestTokenServer: where the server that gives out tokens fails, the error names that and not the store.
func TestTokenServer(t *testing.T) {
	base, requests := server(t, answerStream(nil))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hidden-secret", 500) }))
	defer refusing.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for url, want := range map[string]string{
		gone.URL + "/token?key=hidden": "cannot reach " + gone.URL + "/token, oauth2's token_url: connection refused; remote read from " + base + " failed",
		refusing.URL + "/token":        refusing.URL + "/token, oauth2's token_url, answers with status 500 Internal Server Error; remote read from " + base + " failed",
	} {
		cfg := readConfig(t, base)
		cfg.HTTPClientConfig.OAuth2 = &commonconfig.OAuth2{ClientID: "me", ClientSecret: "hidden-secret", TokenURL: url}
		c := newClient(t, cfg, quick())
		_, _, err := c.Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
		require.EqualError(t, err, want+" (after 4 attempts); check that it is running and is the one that the configuration means")
		read, since, why := c.Reach()
		require.False(t, read)
		require.False(t, since.IsZero())
		require.ErrorContains(t, why, "token_url")
	}
	require.Zero(t, requests.Load())
}

// TestReach: the store counts as read once it has answered with success, and as away from the first
// request that did not reach it until one does.
func TestReach(t *testing.T) {
	var code atomic.Int64
	code.Store(http.StatusServiceUnavailable)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := int(code.Load()); n != 200 {
			http.Error(w, "", n)
			return
		}
		streamed(w, nil)
	}))
	defer s.Close()
	o := quick()
	o.Retries = -1
	c := newClient(t, readConfig(t, s.URL+"/api/v1/read"), o)
	fetch := func() { _, _, _ = c.Fetch(t.Context(), 0, 1, anything, selection.Fetch{}) }
	read, since, why := c.Reach()
	require.False(t, read)
	require.True(t, since.IsZero())
	require.NoError(t, why)

	fetch()
	read, since, why = c.Reach()
	require.False(t, read)
	require.False(t, since.IsZero())
	require.EqualError(t, why, s.URL+"/api/v1/read answers with status 503 Service Unavailable")
	code.Store(http.StatusUnauthorized)
	fetch()
	read, since, why = c.Reach()
	require.False(t, read)
	require.True(t, since.IsZero(), "it is there")
	require.ErrorContains(t, why, "401")
	code.Store(http.StatusOK)
	fetch()
	read, since, why = c.Reach()
	require.True(t, read)
	require.True(t, since.IsZero())
	require.NoError(t, why)
	code.Store(http.StatusInternalServerError)
	fetch()
	_, since, _ = c.Reach()
	require.True(t, since.IsZero(), "it is there")

	code.Store(http.StatusOK)
	_, err := c.HTTPClient().Post(s.URL, "", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("the client has gone"))))
	require.ErrorContains(t, err, "the client has gone")
	_, since, _ = c.Reach()
	require.True(t, since.IsZero(), "the client is to blame")
	code.Store(http.StatusServiceUnavailable)
	resp, err := c.HTTPClient().Get(s.URL)
	require.NoError(t, err)
	resp.Body.Close()
	_, since, _ = c.Reach()
	require.True(t, since.IsZero(), "the client may have asked for too much")
	fetch()
	_, since, _ = c.Reach()
	require.False(t, since.IsZero(), "a gateway says so")
	code.Store(http.StatusOK)
	fetch()
	_, since, _ = c.Reach()
	require.True(t, since.IsZero())

	s.Close()
	fetch() // perhaps on a connection that is still open
	_, since, _ = c.Reach()
	require.False(t, since.IsZero())
	fetch()
	read, again, why := c.Reach()
	require.True(t, read)
	require.Equal(t, since, again)
	require.EqualError(t, why, "cannot reach "+s.URL+": connection refused")
}

// TestImpossibleRequests: what no request can have is an error before any is sent.
func TestImpossibleRequests(t *testing.T) {
	dir := t.TempDir()
	broken, good := filepath.Join(dir, "broken"), filepath.Join(dir, "good")
	require.NoError(t, os.WriteFile(broken, []byte("no certificate"), 0o600))
	require.NoError(t, os.WriteFile(good, []byte("secret"), 0o600))
	none := filepath.Join(dir, "none")
	base, requests := server(t, answerStream(nil))
	for name, c := range map[string]struct {
		change func(*config.RemoteReadConfig)
		want   string // of the error; empty for none
	}{
		"nothing wrong": {func(*config.RemoteReadConfig) {}, ""},
		"a password in a file": {func(c *config.RemoteReadConfig) {
			c.HTTPClientConfig.BasicAuth = &commonconfig.BasicAuth{Username: "me", PasswordFile: good}
		}, ""},
		"no file of the password": {func(c *config.RemoteReadConfig) {
			c.HTTPClientConfig.BasicAuth = &commonconfig.BasicAuth{Username: "me", PasswordFile: none}
		}, none},
		"no file of credentials": {func(c *config.RemoteReadConfig) {
			c.HTTPClientConfig.Authorization = &commonconfig.Authorization{Type: "Bearer", CredentialsFile: none}
		}, none},
		"no file of a secret": {func(c *config.RemoteReadConfig) {
			c.HTTPClientConfig.OAuth2 = &commonconfig.OAuth2{ClientID: "me", ClientSecretFile: none, TokenURL: "http://127.0.0.1:1"}
		}, none},
		"no file of certificates":      {func(c *config.RemoteReadConfig) { c.HTTPClientConfig.TLSConfig.CAFile = none }, none},
		"a file without a certificate": {func(c *config.RemoteReadConfig) { c.HTTPClientConfig.TLSConfig.CAFile = broken }, broken},
		"a line's end in a header":     {func(c *config.RemoteReadConfig) { c.Headers = map[string]string{"X-Tenant": "a\r\nb"} }, "X-Tenant"},
		"a header's name with a space": {func(c *config.RemoteReadConfig) { c.Headers = map[string]string{"X Tenant": "a"} }, "X Tenant"},
		"a token that nobody is asked for": {func(c *config.RemoteReadConfig) {
			c.HTTPClientConfig.OAuth2 = &commonconfig.OAuth2{ClientID: "me", ClientSecretFile: good, TokenURL: base}
		}, ""},
	} {
		cfg := readConfig(t, base)
		c.change(cfg)
		got, err := NewClient(cfg, Options{})
		if c.want == "" {
			require.NoError(t, err, name)
			got.CloseIdle()
			continue
		}
		require.ErrorContains(t, err, c.want, name)
		require.ErrorContains(t, err, "correct it, or let promwarp's user read the file", name)
	}
	require.Zero(t, requests.Load())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var anything = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")}

// quick are options under which retries do not take long.
func quick() Options { return Options{MinBackoff: time.Millisecond} }

func readConfig(t testing.TB, rawURL string) *config.RemoteReadConfig {
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	c := config.DefaultRemoteReadConfig
	c.URL = &commonconfig.URL{URL: u}
	c.RemoteTimeout = model.Duration(10 * time.Second)
	return &c
}

func newClient(t testing.TB, cfg *config.RemoteReadConfig, o Options) *Client {
	c, err := NewClient(cfg, o)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdle)
	return c
}

// server counts the requests that h answers. h gets their number, from 1.
func server(t testing.TB, h func(w http.ResponseWriter, r *http.Request, n int64)) (base string, requests *atomic.Int64) {
	requests = &atomic.Int64{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h(w, r, requests.Add(1))
	}))
	// Prometheus's handler answers a client that went away in the middle with a second status.
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL + "/api/v1/read", requests
}

// promHandler serves remote read of q as Prometheus does. frame is its
// --storage.remote.read-max-bytes-in-frame, and limit its
// --storage.remote.read-sample-limit.
func promHandler(q storage.SampleAndChunkQueryable, frame, limit int) http.Handler {
	return remote.NewReadHandler(promslog.NewNopLogger(), nil, q, func() config.Config { return config.Config{} }, limit, 10, frame)
}

// onlySamples is h for a store that cannot stream chunks.
func onlySamples(t testing.TB, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := remote.DecodeReadRequest(r)
		if err != nil {
			t.Error(err)
			return
		}
		q.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES}
		r.Body = body(marshal(q))
		h.ServeHTTP(w, r)
	})
}

type closer struct{ *bytes.Reader }

func (closer) Close() error { return nil }

func body(data []byte) closer { return closer{bytes.NewReader(snappy.Encode(nil, data))} }

// Those of wiretest that nearly every test uses.
var (
	marshal, frames, wireSeries = answertest.Marshal, answertest.Frames, answertest.Series
	rawFrame, floats            = answertest.RawFrame, answertest.Floats
	chunksOf                    = answertest.Chunks
)

func streamed(w http.ResponseWriter, b []byte) {
	w.Header().Set("Content-Type", "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")
	_, _ = w.Write(b)
}

func sampled(w http.ResponseWriter, ts ...*prompb.TimeSeries) {
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Header().Set("Content-Encoding", "snappy")
	_, _ = w.Write(snappy.Encode(nil, marshal(&prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: ts}}})))
}

// sample is a sample in a form that require.Equal compares bit by bit.
type sample struct {
	T  int64
	F  uint64
	H  *histogram.Histogram
	FH *histogram.FloatHistogram
}

// expand returns the samples of all series. Hints about counter resets depend
// on where chunks begin and are dropped, except for gauges.
func expand(t testing.TB, set storage.SeriesSet) map[string][]sample {
	out := map[string][]sample{}
	for set.Next() {
		name := set.At().Labels().String()
		require.NotContains(t, out, name)
		it := set.At().Iterator(nil)
		for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
			s := sample{T: it.AtT()}
			switch v {
			case chunkenc.ValFloat:
				_, f := it.At()
				s.F = math.Float64bits(f)
			case chunkenc.ValHistogram:
				_, s.H = it.AtHistogram(nil)
				if s.H.CounterResetHint != histogram.GaugeType {
					s.H.CounterResetHint = histogram.UnknownCounterReset
				}
				s.H = s.H.Compact(0)
			case chunkenc.ValFloatHistogram:
				_, s.FH = it.AtFloatHistogram(nil)
				if s.FH.CounterResetHint != histogram.GaugeType {
					s.FH.CounterResetHint = histogram.UnknownCounterReset
				}
				s.FH = s.FH.Compact(0)
			}
			out[name] = append(out[name], s)
		}
		require.NoError(t, it.Err())
	}
	require.NoError(t, set.Err())
	return out
}

func query(t testing.TB, q storage.Queryable, mint, maxt int64, ms ...*labels.Matcher) map[string][]sample {
	r, err := q.Querier(mint, maxt)
	require.NoError(t, err)
	defer r.Close()
	return expand(t, r.Select(context.Background(), true, nil, ms...))
}

func samplesOf(t testing.TB, s *selection.Selection, mint, maxt int64) map[string][]sample {
	return expand(t, s.SeriesSet(mint, maxt, nil))
}
