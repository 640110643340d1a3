package engine

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/golang/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/remoteread/answer/answertest"
)

// A brokenStore is a remote-read server of a small data set that is broken in one of many ways, which
// brokenKinds lists; it answers rightly when it is mended.
const (
	// brokenMetric is the name of all series.
	brokenMetric = "broken_requests_total"
	// brokenSeries is how many series there are, which differ in the label instance.
	brokenSeries = 3
	// brokenStep is how far apart samples are, ms.
	brokenStep = 15_000
	// perChunk is how many samples a chunk has at most.
	perChunk = 120
	// longest is the most of a range that is answered, ms: its end.
	longest = 6 * 3_600_000
)

// brokenLabels returns the labels of series i.
func brokenLabels(i int) labels.Labels {
	return labels.FromStrings(model.MetricNameLabel, brokenMetric, "instance", fmt.Sprintf("host-%d", i), "job", "test")
}

// brokenValue returns the value of series i at a time, ms since the epoch.
func brokenValue(i int, t int64) float64 { return float64(t/brokenStep + int64(i)) }

// brokenStore is a remote-read server that may be broken. It is safe for concurrent use. The
// zero value is not broken.
type brokenStore struct {
	kind atomic.Pointer[brokenKind]
}

// Break makes the store answer as k says from the next request on.
func (s *brokenStore) Break(k brokenKind) { s.kind.Store(&k) }

// Mend makes the store answer rightly.
func (s *brokenStore) Mend() { s.kind.Store(nil) }

// ServeHTTP implements http.Handler. Every path is that of remote read.
func (s *brokenStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k := s.kind.Load()
	q, err := remote.DecodeReadRequest(r)
	if err != nil && (k == nil || !k.anyRequest) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	x := exchange{ResponseWriter: w, r: r}
	if err == nil {
		if x.series, err = seriesOf(q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		x.queries = len(q.Queries)
	}
	if k == nil {
		x.stream(frames(x.series...))
		return
	}
	k.answer(&x)
}

// seriesOf is the answer to the first query. To others, which a client asks for series with
// external labels of their own by, it is none.
func seriesOf(q *prompb.ReadRequest) ([]*prompb.ChunkedSeries, error) {
	if len(q.Queries) == 0 {
		return nil, fmt.Errorf("there is no query")
	}
	first := q.Queries[0]
	ms, err := remote.FromLabelMatchers(first.Matchers)
	if err != nil {
		return nil, err
	}
	var out []*prompb.ChunkedSeries
	for i := range brokenSeries {
		l := brokenLabels(i)
		if slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) }) {
			continue
		}
		from := max(first.StartTimestampMs, first.EndTimestampMs-longest)
		if s := series(i, from, first.EndTimestampMs); len(s.Chunks) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

// series is series i from mint to maxt, ms.
func series(i int, mint, maxt int64) *prompb.ChunkedSeries {
	s := &prompb.ChunkedSeries{}
	brokenLabels(i).Range(func(l labels.Label) { s.Labels = append(s.Labels, prompb.Label{Name: l.Name, Value: l.Value}) })
	var times []int64
	for t := (mint + brokenStep - 1) / brokenStep * brokenStep; t <= maxt; t += brokenStep {
		if times = append(times, t); len(times) == perChunk {
			s.Chunks, times = append(s.Chunks, chunk(i, times...)), nil
		}
	}
	if len(times) > 0 {
		s.Chunks = append(s.Chunks, chunk(i, times...))
	}
	return s
}

// chunk is a chunk of series i with samples at the given times, in that order.
func chunk(i int, times ...int64) prompb.Chunk {
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	if err != nil {
		panic(err) // of an empty chunk there is none
	}
	for _, t := range times {
		app.Append(0, t, brokenValue(i, t))
	}
	return prompb.Chunk{
		Type: prompb.Chunk_XOR, Data: c.Bytes(),
		MinTimeMs: slices.Min(times), MaxTimeMs: slices.Max(times),
	}
}

// exchange is one request and its answer.
type exchange struct {
	http.ResponseWriter
	r       *http.Request
	series  []*prompb.ChunkedSeries // that a right answer has
	queries int
}

// stream answers with b as a stream of frames.
func (x *exchange) stream(b []byte) {
	x.Header().Set("Content-Type", "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse")
	x.write(b)
}

// write writes b and sends it. An error, of a client that has gone, is of no interest.
func (x *exchange) write(b []byte) bool {
	_, err := x.Write(b)
	x.ResponseWriter.(http.Flusher).Flush()
	return err == nil && x.r.Context().Err() == nil
}

// samples answers with samples.
func (x *exchange) samples(results ...*prompb.QueryResult) {
	for len(results) < x.queries {
		results = append(results, &prompb.QueryResult{})
	}
	x.compressed(snappy.Encode(nil, marshal(&prompb.ReadResponse{Results: results})))
}

// compressed answers with b as an answer of samples.
func (x *exchange) compressed(b []byte) {
	x.Header().Set("Content-Type", "application/x-protobuf")
	x.Header().Set("Content-Encoding", "snappy")
	x.write(b)
}

// floats is the first series of the answer as samples at the given times.
func (x *exchange) floats(times ...int64) *prompb.TimeSeries { return x.floatsOf(0, times...) }

// floatsOf is the same of series i, where the answer has all series.
func (x *exchange) floatsOf(i int, times ...int64) *prompb.TimeSeries {
	ts := &prompb.TimeSeries{Labels: x.series[i].Labels}
	for _, t := range times {
		ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: t, Value: brokenValue(i, t)})
	}
	return ts
}

// first is the first chunk of the first series.
func (x *exchange) first() *prompb.Chunk { return &x.series[0].Chunks[0] }

// Those of wiretest that nearly every kind uses.
var marshal, frames = answertest.Marshal, answertest.Frames

// frame is data as a frame.
func frame(data []byte) []byte { return answertest.RawFrame(data, true) }

// brokenKind is one way of being broken.
type brokenKind struct {
	Name string // in words; unique
	// Fails says whether a fetch must fail. Where it does not, what is odd changes no
	// answer, or is what Prometheus accepts.
	Fails bool
	// Late says that a fetch need not notice, but the code that decodes the samples must.
	Late bool
	// Endless says that the answer does not end by itself: a limit or a deadline ends it.
	Endless bool
	// Says is part of the error; empty for an endless one that a deadline ends.
	Says string

	anyRequest bool // whether what is no remote-read request is answered, too
	answer     func(*exchange)
}

// brokenKinds returns all kinds.
func brokenKinds() []brokenKind {
	return slices.Concat(http1, streams, seriesKinds, chunkKinds, sampleKinds)
}

// altered is a kind that alters a right answer.
func altered(name, says string, alter func(*exchange)) brokenKind {
	return brokenKind{Name: name, Fails: says != "", Says: says, answer: func(x *exchange) {
		alter(x)
		x.stream(frames(x.series...))
	}}
}

// late is an altered kind that is noticed when samples are decoded.
func late(name, says string, alter func(*exchange)) brokenKind {
	k := altered(name, says, alter)
	k.Late = true
	return k
}
