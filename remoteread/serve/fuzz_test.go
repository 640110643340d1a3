package serve

import (
	"bytes"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/planner"
)

// readRequests are bodies to begin with, not compressed.
func readRequests(t testing.TB) (out [][]byte) {
	t.Helper()
	of := func(mint, maxt int64, ms ...*prompb.LabelMatcher) *prompb.Query {
		return &prompb.Query{StartTimestampMs: mint, EndTimestampMs: maxt, Matchers: ms}
	}
	all := matcher(prompb.LabelMatcher_RE, "i", ".+")
	for _, req := range []*prompb.ReadRequest{
		{},
		{Queries: []*prompb.Query{query(0, latest)}},
		{Queries: []*prompb.Query{query(0, latest), of(100, 2000, all)}, AcceptedResponseTypes: streamed},
		{Queries: []*prompb.Query{of(math.MinInt64, math.MaxInt64, all)}, AcceptedResponseTypes: streamed},
		{Queries: []*prompb.Query{{
			StartTimestampMs: 3000, EndTimestampMs: 9000, Matchers: []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_NEQ, "zone", "0")},
			Hints: &prompb.ReadHints{Func: "series", StartMs: 2000, EndMs: 8000, StepMs: 7, RangeMs: 60, By: true, Grouping: []string{"i"}},
		}}},
		{Queries: []*prompb.Query{of(9, 3, matcher(prompb.LabelMatcher_NRE, "i", "0(0|1){2,3}"))}, AcceptedResponseTypes: sampled},
	} {
		data, err := proto.Marshal(req)
		require.NoError(t, err)
		out = append(out, data)
	}
	return out
}

// The limits of the handler that is fuzzed.
const (
	fuzzSamples = 300 // of a query, in an answer of samples
	fuzzStream  = 600 // and of chunks
	fuzzQueries = 4   // of a request
	fuzzFrame   = 256 // bytes
	fuzzMemory  = 64 << 20
	// fuzzAllocated is how many bytes may be allocated for a request, besides a multiple of its
	// own size.
	fuzzAllocated = 16 << 20
)

// FuzzHandler sends any body to the handler: it answers within its limits, gives back all
// that it took, and allocates no more than a multiple of what was sent.
func FuzzHandler(f *testing.F) {
	for _, data := range readRequests(f) {
		f.Add(data, true)
		f.Add(snappy.Encode(nil, data), false)
	}
	f.Add(bomb(31<<20), false)
	f.Add(bomb(math.MaxUint32), false)
	f.Add(bytes.Repeat([]byte{0x0a, 0}, 50), true)
	m := &inMemory{sel: random(f, rand.New(rand.NewPCG(1, 2)), 12)}
	pool := memory.New(memory.Options{Limit: fuzzMemory, Wait: time.Millisecond})
	h := newHandler(f, m, func(o *Options) {
		o.SampleLimit, o.StreamSampleLimit, o.MaxQueries, o.FrameBytes, o.Memory = fuzzSamples, fuzzStream, fuzzQueries, fuzzFrame, pool
	})
	f.Fuzz(func(t *testing.T, data []byte, compress bool) {
		body := data
		if compress {
			body = snappy.Encode(nil, data)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		w := send(h, body)
		runtime.ReadMemStats(&after)
		require.Zero(t, m.open.Load())
		require.Zero(t, pool.Used())
		if took := after.TotalAlloc - before.TotalAlloc; took > fuzzAllocated+200*uint64(len(body)) {
			t.Errorf("%d bytes allocated for a body of %d", took, len(body))
		}
		requireWithinLimits(t, w)
	})
}

// requireWithinLimits checks that an answer of the handler that is fuzzed is an error, or
// well-formed and within the limits.
func requireWithinLimits(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code == http.StatusBadRequest || w.Code == http.StatusInternalServerError {
		require.NotContains(t, w.Body.String(), "panic")
		return
	}
	require.Equal(t, http.StatusOK, w.Code)
	count := map[int64]int{} // samples, by query
	if w.Header().Get("Content-Encoding") == "snappy" {
		data, err := snappy.Decode(nil, w.Body.Bytes())
		require.NoError(t, err)
		var resp prompb.ReadResponse
		require.NoError(t, proto.Unmarshal(data, &resp))
		require.LessOrEqual(t, len(resp.Results), fuzzQueries)
		for k, r := range resp.Results {
			for _, s := range r.Timeseries {
				count[int64(k)] += len(s.Samples) + len(s.Histograms)
			}
			require.LessOrEqual(t, count[int64(k)], fuzzSamples)
		}
		return
	}
	in := remote.NewChunkedReader(w.Body, 1<<30, nil)
	for {
		frame := &prompb.ChunkedReadResponse{}
		if err := in.NextProto(frame); err != nil {
			break // the end, or the text of an error
		}
		require.Less(t, frame.QueryIndex, int64(fuzzQueries))
		for _, s := range frame.ChunkedSeries {
			for _, c := range s.Chunks {
				chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Type), c.Data)
				require.NoError(t, err)
				count[frame.QueryIndex] += chunk.NumSamples()
			}
		}
		require.LessOrEqual(t, count[frame.QueryIndex], fuzzStream)
	}
}

// FuzzRequest decodes any protobuf as a request: what the counts before decoding let through
// has no more queries and matchers than they say.
func FuzzRequest(f *testing.F) {
	for _, data := range readRequests(f) {
		f.Add(data)
	}
	h := &Handler{o: Options{MaxQueries: fuzzQueries}}
	f.Fuzz(func(t *testing.T, data []byte) {
		req, err := h.decodeRequest(t.Context(), snappy.Encode(nil, data), nil)
		if err != nil {
			require.ErrorAs(t, err, new(*fault))
			return
		}
		require.LessOrEqual(t, len(req.Queries), fuzzQueries)
		require.LessOrEqual(t, len(req.AcceptedResponseTypes), maxTypes)
		for _, q := range req.Queries {
			require.LessOrEqual(t, len(q.Matchers), planner.DefaultItems)
			if h := hintsOf(q.Hints); h != nil {
				require.LessOrEqual(t, len(h.Grouping), planner.DefaultItems)
			}
			if ms, err := matchersOf(q.Matchers, labels.EmptyLabels()); err == nil {
				require.Len(t, ms, len(q.Matchers))
			}
		}
	})
}
