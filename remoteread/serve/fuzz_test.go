package serve

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync/atomic"
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
	"github.com/promwarp/promwarp/selection"
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
		o.SampleLimit, o.MaxQueries, o.FrameBytes, o.Memory = fuzzSamples, fuzzQueries, fuzzFrame, pool
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
				_, err := chunkenc.FromData(chunkenc.Encoding(c.Type), c.Data)
				require.NoError(t, err)
			}
		}
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

// large makes a selection whose answer is some 20 MB, more than the buffers of a connection.
func large(t testing.TB, e chunkenc.Encoding) *selection.Selection {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	b := selection.NewBuilder(0)
	ts := int64(1)
	minT, maxT, data := encode(t, r, e, &ts, 1000)
	for i := range 4000 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%05d", i)))
		require.NoError(t, b.Chunk(e, minT, maxT, data))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	require.Greater(t, sel.PayloadBytes(), int64(10<<20))
	return sel
}

// counting counts the bytes that were written.
type counting struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n.Add(int64(n))
	return n, err
}

func (c counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// A reader that stops reading holds up no more than what is on the way, and when it goes,
// the querier is closed and nothing goes on (see TestMain).
func TestReaderStopsAndGoes(t *testing.T) {
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		m := &inMemory{sel: large(t, e)}
		h := newHandler(t, m, func(o *Options) { o.Queue = oneSlot() })
		var sent atomic.Int64
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(counting{w, &sent}, r) }))
		conn := startReading(t, srv, streamed, query(0, 10*latest))
		some := make([]byte, 1000)
		_, err := io.ReadFull(conn, some)
		require.NoError(t, err)
		last := int64(-1)
		require.Eventually(t, func() bool { // nothing is written any more
			now := sent.Load()
			same := now == last
			last = now
			return same && now > 0
		}, 10*time.Second, 200*time.Millisecond)
		require.EqualValues(t, 1, m.open.Load())
		require.Less(t, sent.Load(), m.sel.PayloadBytes()/2, "the rest is not made before it is read")

		require.NoError(t, conn.Close())
		require.Eventually(t, func() bool { return m.open.Load() == 0 }, 10*time.Second, 10*time.Millisecond)
		srv.Close()
	}
}

// startReading sends a request over a connection of its own.
func startReading(t *testing.T, srv *httptest.Server, types []prompb.ReadRequest_ResponseType, q *prompb.Query) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	body := compressed(t, &prompb.ReadRequest{AcceptedResponseTypes: types, Queries: []*prompb.Query{q}})
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	return conn
}

// A reader that stops reading is cut off when the time is over.
func TestReaderStopsUntilTimeout(t *testing.T) {
	m := &inMemory{sel: large(t, chunkenc.EncXOR)}
	srv := httptest.NewServer(newHandler(t, m, func(o *Options) { o.Timeout = 100 * time.Millisecond }))
	defer srv.Close()
	conn := startReading(t, srv, streamed, query(0, 10*latest))
	defer conn.Close()
	require.Eventually(t, func() bool { return m.open.Load() == 1 }, 5*time.Second, time.Millisecond)
	start := time.Now()
	require.Eventually(t, func() bool { return m.open.Load() == 0 }, 10*time.Second, 10*time.Millisecond)
	require.Less(t, time.Since(start), 5*time.Second)
}

// An answer that fails on the way ends with the error's text, which is no frame.
func TestFailsOnTheWay(t *testing.T) {
	r := seeded(t)
	b := selection.NewBuilder(0)
	for i := range 3000 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%05d", i)))
		ts := int64(1)
		minT, maxT, data := encode(t, r, chunkenc.EncXOR, &ts, 20)
		if i == 2500 {
			data = slices.Clone(data[:12]) // no more than the first sample
			maxT = latest
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, minT, maxT, data))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	m := &inMemory{sel: sel}
	discarded := false
	sel.OnDiscard = func() { discarded = true }
	srv := httptest.NewServer(newHandler(t, m))
	defer srv.Close()
	resp, err := srv.Client().Post(srv.URL, "", bytes.NewReader(compressed(t, &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{query(0, latest-1)}})))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	in := remote.NewChunkedReader(resp.Body, 1<<20, nil)
	n := 0
	for err = nil; err == nil; n++ {
		err = in.NextProto(&prompb.ChunkedReadResponse{})
	}
	require.NotErrorIs(t, err, io.EOF, "nobody takes it for whole")
	require.Equal(t, 2500, n-1, "what was right has come")
	require.True(t, discarded, "it is fetched again next time")

	// With samples there is a status.
	w := ask(t, newHandler(t, m), &prompb.ReadRequest{Queries: []*prompb.Query{query(0, latest-1)}})
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "corrupt chunk in series {__name__=\"m\", i=\"02500\"}")
	// And where nothing was sent yet, with chunks.
	q := query(0, latest-1)
	q.Matchers = append(q.Matchers, matcher(prompb.LabelMatcher_EQ, "i", "02500"))
	w = ask(t, newHandler(t, m), &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{q}})
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "corrupt chunk")
	require.Zero(t, m.open.Load())
}
