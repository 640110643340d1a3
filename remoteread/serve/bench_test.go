package serve_test

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// fixed is an upstream that has one selection.
type fixed struct{ sel *selection.Selection }

func (f fixed) Fetch(context.Context, int64, int64, []*labels.Matcher, selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	return f.sel, nil, nil
}

// sink takes an answer.
type sink struct {
	header http.Header
	n      int64
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Flush()                      {}
func (s *sink) Write(b []byte) (int, error) { s.n += int64(len(b)); return len(b), nil }

// BenchmarkRead answers for 3 000 series over 24 h from a cache that has them, 17 M
// samples: as chunks as they are stored, as chunks of which the first and the last are
// cut, and, for a tenth of the time, as samples. prometheus is Prometheus's handler over
// the same cache, which cuts nothing.
func BenchmarkRead(b *testing.B) {
	const series, samples = 3000, 5760
	sel, err := synthetic.Counters("m", series, samples)
	if err != nil {
		b.Fatal(err)
	}
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range sel.NumSeries() {
		for _, c := range sel.Chunks(i) {
			mint, maxt = min(mint, c.MinT), max(maxt, c.MaxT)
		}
	}
	c := cache.New(fixed{sel}, cache.Options{HostBytes: 1 << 30})
	door := serve.New(serve.Options{Queryable: selection.Storage{Source: c}})
	handlers := map[string]http.Handler{
		"promwarp":   door,
		"prometheus": remote.NewReadHandler(promslog.NewNopLogger(), nil, selection.Storage{Source: c}, func() promconfig.Config { return promconfig.Config{} }, 1e9, 10, 1<<20),
	}
	for _, q := range []struct {
		name       string
		mint, maxt int64
		samples    bool
	}{
		{"chunks", mint, maxt, false},
		{"cut", mint + 200_000, maxt - 200_000, false},
		{"samples", mint, mint + (maxt-mint)/10, true},
	} {
		req := &prompb.ReadRequest{Queries: []*prompb.Query{{StartTimestampMs: q.mint, EndTimestampMs: q.maxt, Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "m"}}}}}
		if !q.samples {
			req.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}
		}
		data, err := req.Marshal()
		if err != nil {
			b.Fatal(err)
		}
		body := snappy.Encode(nil, data)
		for _, name := range []string{"promwarp", "prometheus"} {
			b.Run(q.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w := &sink{header: http.Header{}}
					handlers[name].ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(body)))
					if w.n < series {
						b.Fatal(w.n, "bytes")
					}
					b.SetBytes(w.n)
				}
			})
		}
	}
}
