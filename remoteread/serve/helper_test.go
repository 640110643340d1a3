package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneSlot is a queue of which one may be in and one wait.
func oneSlot() *queue.Queue { return queue.New(queue.Limits{Slots: 1, MaxWaiting: 1}, nil) }

// sample is one sample in a form that can be compared.
type sample struct {
	t, st int64
	bits  uint64 // of the value, or a hash of the histogram
	hint  int    // 0 for a float; of a histogram its counter reset hint and 1
}

// current is the sample that it is at.
func current(it chunkenc.Iterator, v chunkenc.ValueType) sample {
	s := sample{t: it.AtT(), st: it.AtST()}
	if v == chunkenc.ValFloat {
		_, f := it.At()
		s.bits = math.Float64bits(f)
		return s
	}
	_, h := it.AtFloatHistogram(nil)
	s.bits, s.hint = hash(h), int(h.CounterResetHint)+1
	return s
}

func hash(h *histogram.FloatHistogram) uint64 {
	f := fnv.New64a()
	if value.IsStaleNaN(h.Sum) {
		return 1 // its buckets do not matter
	}
	fmt.Fprintf(f, "%d %x %x %x %x %v %v %x %x %v", h.Schema, h.ZeroThreshold, h.ZeroCount, h.Count, math.Float64bits(h.Sum),
		h.PositiveSpans, h.NegativeSpans, h.PositiveBuckets, h.NegativeBuckets, h.CustomValues)
	return f.Sum64()
}

// drain returns the samples of it from mint to maxt (ms, both included).
func drain(t testing.TB, it chunkenc.Iterator, mint, maxt int64) (out []sample) {
	t.Helper()
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		if s := current(it, v); s.t >= mint && s.t <= maxt {
			out = append(out, s)
		}
	}
	require.NoError(t, it.Err())
	return out
}

// received is one series of an answer.
type received struct {
	labels  string
	samples []sample
}

// inMemory is a selection to read from.
type inMemory struct {
	sel  *selection.Selection
	err  error        // instead of an answer
	open atomic.Int64 // queriers
	wait chan struct{}
}

func (m *inMemory) Querier(mint, maxt int64) (storage.Querier, error) {
	m.open.Add(1)
	return &selection.SeriesQuerier{Reader: &memoryReader{inMemory: m}, Mint: mint, Maxt: maxt}, nil
}

func (m *inMemory) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	m.open.Add(1)
	return &selection.ChunkQuerier{Reader: &memoryReader{inMemory: m}, Mint: mint, Maxt: maxt}, nil
}

type memoryReader struct {
	*inMemory
	storage.LabelQuerier
	selection.Keeper
}

func (q *memoryReader) BeginChunks(asks []selection.Ask) []selection.Get {
	return selection.Begin(struct{ selection.Querier }{q}, asks)
}

func (q *memoryReader) Close() error {
	q.open.Add(-1)
	return nil
}

// SelectChunks implements selection.Querier.
func (q *memoryReader) SelectChunks(ctx context.Context, _ *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	if q.wait != nil {
		select {
		case <-q.wait:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	if q.err != nil {
		return nil, nil, q.err
	}
	sel := q.sel.Filter(func(l labels.Labels) bool {
		return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) })
	})
	if sel.NumSeries() == q.sel.NumSeries() {
		return q.sel, annotations.New().Add(errors.New("a warning")), nil
	}
	return sel, nil, nil
}

var encodings = selectiontest.Encodings

// encode returns a chunk with n samples from *ts (ms) on, and moves *ts behind them.
func encode(t testing.TB, r *rand.Rand, e chunkenc.Encoding, ts *int64, n int) (minT, maxT int64, data []byte) {
	t.Helper()
	c, err := chunkenc.NewEmptyChunk(e)
	require.NoError(t, err)
	app, err := c.Appender()
	require.NoError(t, err)
	gauge, count, minT := r.IntN(3) == 0, r.Int64N(100), *ts
	hint := []histogram.CounterResetHint{histogram.UnknownCounterReset, histogram.CounterReset, histogram.NotCounterReset}[r.IntN(3)]
	stale := r.IntN(4) == 0 // from some sample on
	var first chunkenc.Chunk
	for k := range n {
		maxT = *ts
		st := int64(0)
		if selectiontest.WithST(e) && r.IntN(3) > 0 {
			st = minT - 1 - r.Int64N(2)
		}
		gone := stale && k == n-1
		count += r.Int64N(4)
		switch e {
		case chunkenc.EncXOR, chunkenc.EncXOR2:
			app.Append(st, maxT, someFloat(r, gone))
		case chunkenc.EncHistogram, chunkenc.EncHistogramST:
			h := tsdbutil.GenerateTestHistogram(count)
			if gauge {
				h = tsdbutil.GenerateTestGaugeHistogram(r.Int64N(1000))
			}
			if gone {
				h = &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN), CounterResetHint: h.CounterResetHint}
			}
			first, _, app, err = app.AppendHistogram(nil, st, maxT, h, true)
		default:
			h := tsdbutil.GenerateTestFloatHistogram(count)
			if gauge {
				h = tsdbutil.GenerateTestGaugeFloatHistogram(r.Int64N(1000))
			}
			if gone {
				h = &histogram.FloatHistogram{Sum: math.Float64frombits(value.StaleNaN), CounterResetHint: h.CounterResetHint}
			}
			first, _, app, err = app.AppendFloatHistogram(nil, st, maxT, h, true)
		}
		require.NoError(t, err)
		require.Nil(t, first)
		*ts += 1 + r.Int64N(300)
	}
	data = c.Bytes()
	if !gauge && resetByte(e) >= 0 {
		said := map[histogram.CounterResetHint]chunkenc.CounterResetHeader{
			histogram.UnknownCounterReset: chunkenc.UnknownCounterReset,
			histogram.CounterReset:        chunkenc.CounterReset,
			histogram.NotCounterReset:     chunkenc.NotCounterReset,
		}[hint]
		setReset(e, data, byte(said))
	}
	return minT, maxT, data
}

func someFloat(r *rand.Rand, stale bool) float64 {
	switch {
	case stale:
		return math.Float64frombits(value.StaleNaN)
	case r.IntN(20) == 0:
		return []float64{math.NaN(), math.Inf(1), math.Copysign(0, -1), 0}[r.IntN(4)]
	}
	return math.Round(r.NormFloat64()*1000) / 8
}

// latest is beyond all samples of random, ms.
const latest = 60_000

// random makes a selection of n series with chunks in encs, or in all encodings.
func random(t testing.TB, r *rand.Rand, n int, encs ...chunkenc.Encoding) *selection.Selection {
	t.Helper()
	if len(encs) == 0 {
		encs = encodings
	}
	b := selection.NewBuilder(0)
	for i := range n {
		l := []string{"__name__", "m", "i", fmt.Sprintf("%03d", i)}
		if i%3 == 0 {
			l = append(l, "zone", fmt.Sprint(i%2))
		}
		b.Series(labels.FromStrings(l...))
		ts := r.Int64N(5000)
		chunks, most := 1+r.IntN(6), 40
		if r.IntN(5) == 0 {
			chunks, most = 10+r.IntN(100), 4
		}
		for range chunks {
			e := encs[r.IntN(len(encs))]
			minT, maxT, data := encode(t, r, e, &ts, 1+r.IntN(most))
			require.NoError(t, b.Chunk(e, minT, maxT, data))
			if r.IntN(3*chunks) == 0 {
				ts += r.Int64N(5_000)
			}
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// ask sends req to h and returns what comes.
func ask(t testing.TB, h http.Handler, req *prompb.ReadRequest, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, requestOf(t, req, change...))
	return w
}

func requestOf(t testing.TB, req *prompb.ReadRequest, change ...func(*http.Request)) *http.Request {
	t.Helper()
	data, err := proto.Marshal(req)
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(snappy.Encode(nil, data)))
	for _, f := range change {
		f(r)
	}
	return r
}

// asking sets the URL's parameter chunks.
func asking(c string) func(*http.Request) {
	return func(r *http.Request) { r.URL.RawQuery = "chunks=" + c }
}

var (
	streamed = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES}
	sampled  = []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES}
)

func matcher(typ prompb.LabelMatcher_Type, name, value string) *prompb.LabelMatcher {
	return &prompb.LabelMatcher{Type: typ, Name: name, Value: value}
}

func everySeries() []*prompb.LabelMatcher {
	return []*prompb.LabelMatcher{matcher(prompb.LabelMatcher_EQ, "__name__", "m")}
}

func query(mint, maxt int64) *prompb.Query {
	return &prompb.Query{StartTimestampMs: mint, EndTimestampMs: maxt, Matchers: everySeries()}
}

// frames returns the frames of a streamed answer.
func frames(t testing.TB, body io.Reader) (out []*prompb.ChunkedReadResponse) {
	t.Helper()
	in := remote.NewChunkedReader(body, 1<<30, nil)
	for {
		f := &prompb.ChunkedReadResponse{}
		err := in.NextProto(f)
		if err == io.EOF {
			return out
		}
		require.NoError(t, err)
		require.Len(t, f.ChunkedSeries, 1, "readers look at no more than one series of a frame")
		out = append(out, f)
	}
}

// chunkAnswer returns the samples within the range of each query of a streamed answer,
// series by series.
func chunkAnswer(t testing.TB, body io.Reader, ranges [][2]int64) [][]received {
	t.Helper()
	out := make([][]received, len(ranges))
	for _, f := range frames(t, body) {
		s, b := f.ChunkedSeries[0], labels.NewScratchBuilder(0)
		name, rs := s.ToLabels(&b, nil).String(), &out[f.QueryIndex]
		if n := len(*rs); n == 0 || (*rs)[n-1].labels != name {
			*rs = append(*rs, received{labels: name})
		}
		last := &(*rs)[len(*rs)-1]
		for _, c := range s.Chunks {
			chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Type), c.Data)
			require.NoError(t, err)
			last.samples = append(last.samples, drain(t, chunk.Iterator(nil), ranges[f.QueryIndex][0], ranges[f.QueryIndex][1])...)
		}
		if len(last.samples) == 0 {
			*rs = (*rs)[:len(*rs)-1]
		}
	}
	return out
}

// sampleAnswer is chunkAnswer for an answer of samples.
func sampleAnswer(t testing.TB, body io.Reader, queries int) [][]received {
	t.Helper()
	compressed, err := io.ReadAll(body)
	require.NoError(t, err)
	data, err := snappy.Decode(nil, compressed)
	require.NoError(t, err)
	var resp prompb.ReadResponse
	require.NoError(t, proto.Unmarshal(data, &resp))
	require.Len(t, resp.Results, queries)
	out := make([][]received, queries)
	for i, result := range resp.Results {
		set := remote.FromQueryResult(false, result)
		for set.Next() {
			s := set.At()
			if ss := drain(t, s.Iterator(nil), math.MinInt64, math.MaxInt64); len(ss) > 0 {
				out[i] = append(out[i], received{s.Labels().String(), ss})
			}
		}
		require.NoError(t, set.Err())
	}
	return out
}

// newHandler returns a handler over q.
func newHandler(t testing.TB, q storage.ChunkQueryable, change ...func(*Options)) *Handler {
	t.Helper()
	o := Options{Queryable: q}
	for _, f := range change {
		f(&o)
	}
	return New(o)
}

// promqlParser reads labels as they are written.
var promqlParser = parser.NewParser(parser.Options{})

// referenceWithFrames returns Prometheus's handler over q with frames of this size.
func referenceWithFrames(q storage.SampleAndChunkQueryable, size int) http.Handler {
	return remote.NewReadHandler(promslog.NewNopLogger(), nil, q, func() promconfig.Config { return promconfig.Config{} }, 1e6, 10, size)
}

// reference returns Prometheus's handler over q.
func reference(q storage.SampleAndChunkQueryable, external labels.Labels) http.Handler {
	return remote.NewReadHandler(promslog.NewNopLogger(), nil, q, func() promconfig.Config {
		return promconfig.Config{GlobalConfig: promconfig.GlobalConfig{ExternalLabels: external}}
	}, 1e6, 10, DefaultFrameBytes)
}

// seeded returns a source of random numbers whose seed the test's log says.
func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
