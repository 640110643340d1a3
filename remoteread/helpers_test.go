package remoteread

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
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

	"github.com/promwarp/promwarp/remoteread/wire/wiretest"
	"github.com/promwarp/promwarp/selection"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var anything = []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")}

// quick are options under which retries do not take long.
func quick() Options { return Options{MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond} }

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
	marshal, frames, wireSeries = wiretest.Marshal, wiretest.Frames, wiretest.Series
	rawFrame, floats            = wiretest.RawFrame, wiretest.Floats
	chunksOf                    = wiretest.Chunks
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
