package remoteread

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/version"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

const (
	minute = int64(time.Minute / time.Millisecond)
	hour   = 60 * minute
)

// fill appends 15 hours of series of every kind, a sample a minute, and
// returns the time of the last one.
func fill(t testing.TB, s *teststorage.TestStorage) int64 {
	h := tsdbutil.GenerateTestHistograms(900)
	fh := tsdbutil.GenerateTestFloatHistograms(900)
	gauges := tsdbutil.GenerateTestGaugeHistograms(900)
	custom := tsdbutil.GenerateTestCustomBucketsHistograms(900)
	var last int64
	for i := range 900 {
		last = 1_700_000_000_000 + int64(i)*minute
		app := s.Appender(context.Background())
		add := func(f float64, name string, pairs ...string) {
			_, err := app.Append(0, labels.FromStrings(append([]string{model.MetricNameLabel, name}, pairs...)...), last, f)
			require.NoError(t, err)
		}
		for k := range 5 {
			add(float64(i*k)*1.1, "floats", "k", fmt.Sprint(k))
		}
		add(math.Inf(1-2*(i%2)), "infinities", "ütf", "8.ö", "z", "")
		switch {
		case i%7 == 0:
			add(math.Float64frombits(value.StaleNaN), "stale")
		case i%7 < 5:
			add(float64(i), "stale")
		}
		if i == 400 {
			add(1, "once")
		}
		for name, n := range map[string]func() error{
			"histograms": func() error {
				_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "histograms"), last, h[i], nil)
				return err
			},
			"float_histograms": func() error {
				_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "float_histograms"), last, nil, fh[i])
				return err
			},
			"gauge_histograms": func() error {
				_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "gauge_histograms"), last, gauges[i], nil)
				return err
			},
			"custom_histograms": func() error {
				_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "custom_histograms"), last, custom[i], nil)
				return err
			},
		} {
			require.NoError(t, n(), name)
		}
		if i%2 == 0 {
			add(float64(i), "mixed")
		} else {
			_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "mixed"), last, h[i], nil)
			require.NoError(t, err)
		}
		require.NoError(t, app.Commit())
	}
	return last
}

func TestRoundTrip(t *testing.T) {
	for _, enc := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		store := teststorage.New(t, func(o *tsdb.Options) {
			o.MinBlockDuration, o.FloatChunkEncoding = 2*hour, enc
		})
		last := fill(t, store)
		first := last - 899*minute
		for _, samples := range []bool{false, true} {
			for _, frame := range []int{1 << 20, 300} {
				if samples && frame == 300 {
					continue
				}
				h := promHandler(store, frame, 0)
				if samples {
					h = onlySamples(t, h)
				}
				base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) { h.ServeHTTP(w, r) })
				for _, piece := range []time.Duration{0, 2 * time.Hour, 37 * time.Minute, 1000 * time.Hour} {
					for _, span := range [][2]int64{
						{first - hour, last + hour},
						{first, last},
						{first + 3*hour + 1, first + 5*hour + 12345},
						{first + hour, first + hour},
						{last + hour, last + 2*hour},
					} {
						name := fmt.Sprintf("%s/samples=%v/frame=%d/piece=%s/%d+%d", enc, samples, frame, piece, span[0]-first, span[1]-span[0])
						t.Run(name, func(t *testing.T) {
							c := newClient(t, readConfig(t, base), Options{Piece: piece, Retries: -1})
							asked := pieces(c, span[0], span[1])
							requests.Store(0)
							sel, ws, err := c.Fetch(t.Context(), span[0], span[1], anything, selection.Fetch{})
							require.NoError(t, err)
							require.Empty(t, ws)
							require.EqualValues(t, len(asked), requests.Load())
							require.Equal(t, query(t, store, span[0], span[1], anything...), samplesOf(t, sel, span[0], span[1]))
							if span[0] < first && !samples {
								require.True(t, sel.Has(enc))
							}
						})
					}
				}
			}
		}
	}
}

// pieces are what c splits a range into.
func pieces(c *Client, mint, maxt int64) []span {
	return split(mint, maxt, c.pieceOf(span{mint, maxt}))
}

// TestPieces: long ranges have longer pieces.
func TestPieces(t *testing.T) {
	c := newClient(t, readConfig(t, "http://x"), Options{})
	from := 1000*54*hour + 7*hour
	for _, want := range []struct{ hours, length, pieces int64 }{
		{1, 6, 1}, {24, 6, 5}, {143, 6, 25}, {144, 18, 9}, {431, 18, 25}, {432, 54, 9}, {720, 54, 14}, {8760, 54, 163},
	} {
		got := pieces(c, from, from+want.hours*hour)
		require.Len(t, got, int(want.pieces), "%d h", want.hours)
		for _, s := range got[1:] {
			require.Zero(t, s.mint%(want.length*hour), "%d h", want.hours)
		}
	}
}

// A store that sends whole chunks sends one that lies in two pieces twice.
func TestChunksInTwoPieces(t *testing.T) {
	whole := func(r *http.Request, all ...*prompb.ChunkedSeries) []byte {
		req, err := remote.DecodeReadRequest(r)
		require.NoError(t, err)
		require.Len(t, req.Queries, 1)
		var out []*prompb.ChunkedSeries
		for _, s := range all {
			if c := s.Chunks[0]; c.MinTimeMs <= req.Queries[0].EndTimestampMs && c.MaxTimeMs >= req.Queries[0].StartTimestampMs {
				out = append(out, s)
			}
		}
		return frames(out...)
	}
	a, b := wireSeries(0, 100, "__name__", "a"), wireSeries(100_000, 100, "__name__", "a")
	other := wireSeries(50_000, 100, "__name__", "b")
	base, requests := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) { streamed(w, whole(r, a, b, other)) })
	c := newClient(t, readConfig(t, base), Options{Piece: 40 * time.Second})
	sel, _, err := c.Fetch(t.Context(), 0, 199_999, anything, selection.Fetch{})
	require.NoError(t, err)
	require.EqualValues(t, 5, requests.Load())
	require.Equal(t, 2, sel.NumSeries())
	require.Equal(t, 3, sel.NumChunks())
	require.EqualValues(t, 300, sel.NumSamples())
	require.Equal(t, a.Chunks[0].Data, sel.Bytes(sel.Chunks(0)[0]))
}

func TestRequest(t *testing.T) {
	var got *http.Request
	var asked *prompb.ReadRequest
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) {
		got = r.Clone(context.Background())
		var err error
		asked, err = remote.DecodeReadRequest(r)
		require.NoError(t, err)
		streamed(w, nil)
	})
	cfg := readConfig(t, base)
	cfg.Headers = map[string]string{"X-Scope-OrgID": "tenant"}
	cfg.HTTPClientConfig.BasicAuth = &commonconfig.BasicAuth{Username: "user", Password: "pass"}
	c := newClient(t, cfg, Options{})
	ms := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, "a", "1"), labels.MustNewMatcher(labels.MatchNotEqual, "b", "2"),
		labels.MustNewMatcher(labels.MatchRegexp, "c", "3|4"), labels.MustNewMatcher(labels.MatchNotRegexp, "d", "5.*"),
	}
	sel, _, err := c.Fetch(t.Context(), 5, 7, ms, selection.Fetch{})
	require.NoError(t, err)
	require.Zero(t, sel.NumSeries())

	require.Equal(t, http.MethodPost, got.Method)
	for k, v := range map[string]string{
		"Content-Encoding": "snappy", "Accept-Encoding": "snappy", "Content-Type": "application/x-protobuf",
		"X-Prometheus-Remote-Read-Version": "0.1.0", "User-Agent": "promwarp/" + version.Version, "X-Scope-OrgID": "tenant",
		"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pass")),
	} {
		require.Equal(t, v, got.Header.Get(k), k)
	}
	want, err := remote.ToQuery(5, 7, ms, nil)
	require.NoError(t, err)
	require.Equal(t, []*prompb.Query{want}, asked.Queries)
	require.Equal(t, remote.AcceptedResponseTypes, asked.AcceptedResponseTypes)

	// The client for other requests authenticates in the same way.
	resp, err := c.HTTPClient().Post(base, "", body(marshal(&prompb.ReadRequest{})))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "tenant", got.Header.Get("X-Scope-OrgID"))
	user, _, _ := got.BasicAuth()
	require.Equal(t, "user", user)
}

func TestNothingToAsk(t *testing.T) {
	base, requests := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) { streamed(w, nil) })
	cfg := readConfig(t, base)
	cfg.RequiredMatchers = model.LabelSet{"env": "prod", "dc": "x"}
	c := newClient(t, cfg, Options{})
	eq := func(n, v string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, n, v) }
	for _, ms := range [][]*labels.Matcher{
		nil, anything, {eq("env", "prod")}, {eq("env", "prod"), eq("dc", "y")},
		{eq("env", "prod"), labels.MustNewMatcher(labels.MatchRegexp, "dc", "x")},
	} {
		sel, _, err := c.Fetch(t.Context(), 0, 1, ms, selection.Fetch{})
		require.NoError(t, err)
		require.Zero(t, sel.NumSeries())
	}
	sel, _, err := c.Fetch(t.Context(), 1, 0, []*labels.Matcher{eq("env", "prod"), eq("dc", "x")}, selection.Fetch{})
	require.NoError(t, err)
	require.Zero(t, sel.NumSeries())
	require.Zero(t, requests.Load())

	_, _, err = c.Fetch(t.Context(), 0, 1, []*labels.Matcher{eq("dc", "x"), eq("job", "j"), eq("env", "prod")}, selection.Fetch{})
	require.NoError(t, err)
	require.EqualValues(t, 1, requests.Load())
}

func TestProgress(t *testing.T) {
	series := wireSeries(0, 100, "__name__", "a")
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, n int64) {
		b := frames(series, wireSeries(0, 100, "__name__", "b"))
		if n == 1 {
			b = b[:len(b)-10] // the first piece to arrive is thrown away
		}
		streamed(w, b)
	})
	c := newClient(t, readConfig(t, base), quick())
	var told selection.Progress
	_, _, err := c.Fetch(t.Context(), 0, 18*hour-1, anything, selection.Fetch{Request: selection.Request{Progress: &told}})
	require.NoError(t, err)
	bytes := int64(2 * (len(series.Chunks[0].Data) + len("__name__a") + 2))
	require.Equal(t, 3*bytes, told.Arrived(), "without what was thrown away")
}

func TestMetrics(t *testing.T) {
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, n int64) {
		switch n {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			streamed(w, frames(wireSeries(0, 10, "__name__", "a")))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	reg := prom.NewRegistry()
	cfg := readConfig(t, base)
	cfg.Name = "store"
	o := quick()
	o.Registerer = reg
	c := newClient(t, cfg, o)
	_, _, err := c.Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
	require.NoError(t, err)
	_, _, err = c.Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
	require.Error(t, err)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP promwarp_remote_read_requests_total Remote-read requests sent to the store, retries included, by outcome.
# TYPE promwarp_remote_read_requests_total counter
promwarp_remote_read_requests_total{outcome="ok",upstream="store"} 1
promwarp_remote_read_requests_total{outcome="status_4xx",upstream="store"} 1
promwarp_remote_read_requests_total{outcome="status_5xx",upstream="store"} 1
# HELP promwarp_remote_read_retries_total Remote-read requests that were sent again after a failure.
# TYPE promwarp_remote_read_retries_total counter
promwarp_remote_read_retries_total{upstream="store"} 1
# HELP promwarp_remote_read_series_total Series received from the store; one in several answers counts in each.
# TYPE promwarp_remote_read_series_total counter
promwarp_remote_read_series_total{upstream="store"} 1
# HELP promwarp_remote_read_requests_in_flight Remote-read requests whose answer has not arrived in full.
# TYPE promwarp_remote_read_requests_in_flight gauge
promwarp_remote_read_requests_in_flight{upstream="store"} 0
`), "promwarp_remote_read_requests_total", "promwarp_remote_read_retries_total", "promwarp_remote_read_series_total", "promwarp_remote_read_requests_in_flight"))
	require.Positive(t, testutil.ToFloat64(c.metrics.bytes))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)

	// A second client shares the registerer.
	cfg.Name = "other"
	newClient(t, cfg, o)
}

// TestDefaultConcurrency: on many cores more is asked for at once, within bounds.
func TestDefaultConcurrency(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for cores, want := range map[int]int{1: 4, 2: 4, 8: 4, 12: 6, 16: 8, 128: 8} {
		runtime.GOMAXPROCS(cores)
		require.Equal(t, want, DefaultConcurrency(), cores)
		require.Equal(t, want, newClient(t, readConfig(t, "http://127.0.0.1:1"), Options{}).concurrency, cores)
	}
}

// However many fetches and pieces there are, no more requests are in flight
// than allowed.
func TestConcurrency(t *testing.T) {
	var now, most atomic.Int64
	base, requests := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(5 * time.Millisecond)
		streamed(w, nil)
	})
	c := newClient(t, readConfig(t, base), Options{Concurrency: 3})
	errs := make(chan error)
	for range 3 {
		go func() {
			_, _, err := c.Fetch(context.Background(), 0, 60*hour-1, anything, selection.Fetch{})
			errs <- err
		}()
	}
	for range 3 {
		require.NoError(t, <-errs)
	}
	require.LessOrEqual(t, requests.Load(), int64(30), "some go together")
	require.EqualValues(t, 3, most.Load())
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		mint, maxt, length int64
		want               []span
	}{
		{0, 0, 10, []span{{0, 0}}},
		{0, 9, 10, []span{{0, 9}}},
		{0, 10, 10, []span{{0, 9}, {10, 10}}},
		{-5, 25, 10, []span{{-5, -1}, {0, 9}, {10, 19}, {20, 25}}},
		{-20, -1, 10, []span{{-20, -11}, {-10, -1}}},
		{math.MaxInt64 - 1, math.MaxInt64, 10, []span{{math.MaxInt64 - 1, math.MaxInt64}}},
		{math.MinInt64, math.MinInt64 + 1, 10, []span{{math.MinInt64, math.MinInt64 + 1}}},
	} {
		require.Equal(t, c.want, split(c.mint, c.maxt, c.length))
	}
	for _, c := range []struct{ mint, maxt, length int64 }{
		{math.MinInt64, math.MaxInt64, 1},
		{math.MinInt64, math.MaxInt64, 6 * hour},
		{math.MinInt64, math.MaxInt64, math.MaxInt64},
		{math.MinInt64 / 1000, math.MaxInt64 / 1000, 6 * hour},
		{-1, 400 * 24 * hour, 6 * hour},
		{0, 255, 1}, {0, 256, 1}, {0, 257, 1}, {1, 511, 1},
	} {
		got := split(c.mint, c.maxt, c.length)
		require.LessOrEqual(t, len(got), maxPieces+2)
		require.Equal(t, c.mint, got[0].mint)
		require.Equal(t, c.maxt, got[len(got)-1].maxt)
		for i, s := range got {
			require.LessOrEqual(t, s.mint, s.maxt)
			if i > 0 {
				require.Equal(t, got[i-1].maxt+1, s.mint)
				if c.length < math.MaxInt64 {
					require.Zero(t, s.mint%c.length)
				}
			}
		}
	}
}

func TestOptions(t *testing.T) {
	_, err := NewClient(nil, Options{})
	require.ErrorContains(t, err, "no URL")
	bad := readConfig(t, "ftp://user:hidden@x/read?token=hidden")
	_, err = NewClient(bad, Options{})
	require.EqualError(t, err, `remote read: URL "ftp://x/read": write an http or https URL such as http://prometheus:9090/api/v1/read`)
	bad = readConfig(t, "https://x/read")
	bad.HTTPClientConfig.TLSConfig.CAFile = "/does/not/exist"
	_, err = NewClient(bad, Options{})
	require.ErrorContains(t, err, "remote read from https://x/read: HTTP client configuration")

	c := newClient(t, readConfig(t, "http://user:pw@x/api/v1/read?key=1"), Options{})
	require.Equal(t, "http://x/api/v1/read", c.name)
	require.EqualValues(t, config50MB, c.answers.MaxFrame)
	require.Equal(t, "chunked_read_limit of the entry in remote_read", c.maxFrameSetBy)
	require.Equal(t, 6*hour, c.piece)
	require.Equal(t, 3, c.retries)
}

const config50MB = 50_000_000 // Prometheus's default of chunked_read_limit

func TestBackoff(t *testing.T) {
	c := newClient(t, readConfig(t, "http://x"), Options{MinBackoff: 100 * time.Millisecond})
	for n, most := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond} {
		for range 100 {
			d := c.backoff(n)
			require.GreaterOrEqual(t, d, most/2)
			require.LessOrEqual(t, d, most)
		}
	}
}

// A retry is logged, without secrets.
func TestRetryIsLogged(t *testing.T) {
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, n int64) {
		if n == 1 {
			http.Error(w, "you sent "+r.Header.Get("Authorization"), http.StatusInternalServerError)
			return
		}
		streamed(w, nil)
	})
	var log strings.Builder
	cfg := readConfig(t, base)
	cfg.HTTPClientConfig.Authorization = &commonconfig.Authorization{Type: "Bearer", Credentials: "s3cr3t-token"}
	o := quick()
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	_, _, err := newClient(t, cfg, o).Fetch(t.Context(), 0, 1, anything, selection.Fetch{})
	require.NoError(t, err)
	require.Contains(t, log.String(), "you sent Bearer <secret>")
	require.NotContains(t, log.String(), "s3cr3t")
}

// Labels of a series whose chunks come in many frames are built once, and the
// selection needs no sorting.
func TestSeriesOverFrames(t *testing.T) {
	var all []*prompb.ChunkedSeries
	for i := range 50 {
		all = append(all, wireSeries(int64(i)*100_000, 100, "__name__", "a", "job", "j"))
	}
	all = append(all, wireSeries(0, 100, "__name__", "b"), wireSeries(0, 1, "__name__", "c"))
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) { streamed(w, frames(all...)) })
	c := newClient(t, readConfig(t, base), Options{})
	var stats selection.Stats
	sel, _, err := c.Fetch(t.Context(), 0, hour, anything, selection.Fetch{Request: selection.Request{Stats: &stats}})
	require.NoError(t, err)
	ended, _ := stats.Exchanges()
	require.Len(t, ended, 1)
	require.Equal(t, 3, ended[0].Series)
	require.Equal(t, 3, sel.NumSeries())
	require.Len(t, sel.Chunks(0), 50)
	require.Equal(t, `{__name__="a", job="j"}`, sel.Labels(0).String())
}

// A frame larger than the buffer is read as well.
func TestLargeFrame(t *testing.T) {
	s := wireSeries(0, 100, "__name__", "a")
	for i := range 30_000 {
		s.Chunks = append(s.Chunks, wireSeries(int64(i+1)*100_000, 100, "__name__", "a").Chunks[0])
	}
	b := frames(s, wireSeries(0, 3, "__name__", "b"))
	require.Greater(t, len(b), 2<<20)
	base, _ := server(t, func(w http.ResponseWriter, _ *http.Request, _ int64) { streamed(w, b) })
	sel, _, err := newClient(t, readConfig(t, base), Options{}).Fetch(t.Context(), 0, 5*hour, anything, selection.Fetch{})
	require.NoError(t, err)
	require.Equal(t, 2, sel.NumSeries())
	require.EqualValues(t, 3_000_103, sel.NumSamples())
}
