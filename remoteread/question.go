package remoteread

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

// A store that streams chunks can also send times and values. With few samples of each
// series that is less work for it, and a third to a fifth of the bytes, as labels are
// compressed there; with more of them chunks are smaller and faster.
const (
	// samplesFirst is the most samples of a series, about, with which samples are asked
	// for before chunks. A Prometheus took, with 1408 series of samples 15 s apart, 6.8 ms
	// and 54 kB for 4 of each as samples, 12 ms and 249 kB as chunks; for 12 of each 12 ms
	// and 132 kB, 11 ms and 262 kB; for 20 of each 14 ms and 218 kB, 10 ms and 274 kB.
	samplesFirst = 12
	// samplesFirstInAll is the most samples of all series, a fiftieth of what a
	// Prometheus allows in its default configuration (5e7). It puts all of them into one
	// message before it sends the first.
	samplesFirstInAll = 1_000_000
	// sampleBytes is about how many bytes a sample takes in such an answer.
	sampleBytes = 18
)

// question is a request for one piece, or a part of a request.
type question struct {
	samples bool // whether samples are preferred to chunks
	piece
}

// piece is what one request asks for.
type piece struct {
	span
	ms       []*prompb.LabelMatcher // that the store is to match
	matchers []*labels.Matcher      // that the series match which are to come out of it
	view     *answer.View           // or nil
	fetch    selection.Fetch        // that it is a part of
}

// encode encodes a request, compressed. Of the queries of a question the first alone is to have an
// answer: which series belong to which query would otherwise have to be sorted out again. The
// witness that all questions have in common comes last.
func encode(rides []*ride) ([]byte, error) {
	types := []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES}
	if rides[0].q.samples {
		types[0], types[1] = types[1], types[0]
	}
	req := &prompb.ReadRequest{AcceptedResponseTypes: types}
	for _, r := range rides {
		for _, ms := range r.q.view.Queries(r.q.ms) {
			req.Queries = append(req.Queries, &prompb.Query{StartTimestampMs: r.q.mint, EndTimestampMs: r.q.maxt, Matchers: ms})
		}
	}
	if v := rides[0].q.view; v.WitnessIndex() > 0 {
		req.Queries = append(req.Queries, v.WitnessQuery())
	}
	data, err := proto.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("remote read: encoding the request: %w", err)
	}
	return snappy.Encode(nil, data), nil
}

// prefersSamples reports whether what is expected of ms had better come as samples, if that is
// certain to be the same.
func (c *Client) prefersSamples(e selection.Expectation, ms []*prompb.LabelMatcher) bool {
	if c.chunksAlone.Load() || e.Samples <= 0 || e.Samples > samplesFirst || len(e.Series) == 0 || len(e.Series) > samplesFirstInAll/e.Samples {
		return false
	}
	size := int64(len(e.Series)) * int64(e.Samples) * sampleBytes
	for _, l := range e.Series {
		size += 2 * int64(l.ByteSize()) // there is more around labels than here
	}
	_, only := c.onlyChunks.get(selectorKey(ms))
	return size <= c.answers.MaxAnswer/2 && !only
}

// fetchOnly fetches one part of a range of one piece.
func (c *Client) fetchOnly(ctx context.Context, p piece, all *tally) (*selection.Selection, error) {
	if c.prefersSamples(p.fetch.Expected, p.ms) {
		sel, err := c.fetchPiece(ctx, question{samples: true, piece: p}, all)
		if !chunksMayDo(err) {
			return sel, err
		}
		c.onlyChunks.add(selectorKey(p.ms), struct{}{})
		c.log.Debug("Samples are no good, asking for chunks", "upstream", c.name, "err", err)
	}
	return c.fetchPiece(ctx, question{piece: p}, all)
}

// chunksMayDo reports whether err, of a question that preferred samples, may not be that
// of one that prefers chunks: the store refuses it, as it does where there are too many
// samples, or its answer is not usable.
func chunksMayDo(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.outcome {
	case outcomeUnfit, outcomeTooLarge, outcomeMalformed:
		return true
	case outcomeStatus4xx:
		switch e.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
			return false
		}
		return e.StatusCode >= 400
	}
	return false
}

// recent holds what was found out about selectors, for a while: it depends on the
// selector, on the samples and on the store, all of which may change.
type recent[T any] struct {
	mu  sync.Mutex
	all map[string]remembered[T]
}

type remembered[T any] struct {
	what  T
	until time.Time
}

const (
	rememberFor   = 10 * time.Minute
	maxRemembered = 4096 // selectors
)

// get returns what is known of the selector with the given key, and whether anything is.
func (m *recent[T]) get(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.all[key]
	return r.what, time.Now().Before(r.until)
}

func (m *recent[T]) add(key string, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= maxRemembered {
		m.all = map[string]remembered[T]{}
	}
	m.all[key] = remembered[T]{what, time.Now().Add(rememberFor)}
}

// selectorKey is the same for equal matchers alone.
func selectorKey(ms []*prompb.LabelMatcher) string {
	var b []byte
	for _, m := range ms {
		b = strconv.AppendQuote(strconv.AppendQuote(append(b, byte(m.Type)), m.Name), m.Value)
	}
	return string(b)
}
