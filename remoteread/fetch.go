package remoteread

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

// Fetch returns what matchers select from mint to maxt (ms since the epoch,
// both included). Chunks are whole, so samples outside the range may come
// along. On an error there is no selection; it is an *Error wherever the store
// is involved. The protocol carries no warnings, so annotations are empty.
func (c *Client) Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, f selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	if mint > maxt || !c.Answers(matchers) {
		return selection.Empty(), nil, nil
	}
	ms, err := remote.ToLabelMatchers(matchers)
	if err != nil {
		return nil, nil, fmt.Errorf("remote read from %s: %w", c.upstream, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, c.canceled(ctx)
	}
	var sel *selection.Selection
	if c.external != nil {
		sel, err = c.fetchViewed(ctx, mint, maxt, matchers, f)
	} else {
		sel, err = c.fetchSpans(ctx, piece{span: span{mint, maxt}, ms: ms, matchers: matchers, fetch: f})
	}
	return sel, nil, err
}

// fetchSpans fetches a piece of any length, in several requests at once: in pieces that are short
// enough, or, within one such piece, divided where many series are expected. A nil view leaves series
// as they come.
func (c *Client) fetchSpans(ctx context.Context, whole piece) (*selection.Selection, error) {
	var pieces []piece
	spans := split(whole.mint, whole.maxt, c.pieceOf(whole.span))
	if len(spans) > 1 {
		whole.fetch.Expected.Samples = 0 // of as many none is asked for as samples
		for _, s := range spans {
			p := whole
			p.span = s
			pieces = append(pieces, p)
		}
	} else {
		for _, ms := range c.division(whole.fetch.Expected, whole.ms).matchers(whole.ms) {
			p := whole
			p.ms, p.fetch.Came = ms, nil
			pieces = append(pieces, p)
		}
	}
	all := c.tally(ctx, whole.fetch.Progress)
	if len(pieces) == 1 {
		return c.fetchOnly(ctx, pieces[0], all)
	}
	parts := make([]*selection.Selection, len(pieces))
	// The group's limit keeps the number of goroutines small; the number of
	// requests is limited for the client as a whole.
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(c.concurrency, maxParts))
	for i, p := range pieces {
		if gctx.Err() != nil {
			break
		}
		g.Go(func() error {
			return parallel.Rescue(func() (err error) {
				if parts[i], err = c.fetchOnly(gctx, p, all); err == nil && p.fetch.Came != nil {
					p.fetch.Came(selection.Part{Sel: parts[i], MinT: p.mint, MaxT: p.maxt})
				}
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, c.canceled(ctx)
	}
	return c.join(ctx, parts...)
}

// join joins what the parts of a fetch brought.
func (c *Client) join(ctx context.Context, parts ...*selection.Selection) (*selection.Selection, error) {
	sel, err := selection.Join(ctx, parts...)
	if err == nil {
		return sel, nil
	}
	if ctx.Err() != nil {
		return nil, c.canceled(ctx)
	}
	return nil, c.malformed(err)
}

// Answers reports whether the selector contains the required matchers. As in
// Prometheus, one that does not selects nothing here.
func (c *Client) Answers(matchers []*labels.Matcher) bool {
	for name, value := range c.required {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
			return m.Type == labels.MatchEqual && m.Name == string(name) && m.Value == string(value)
		}) {
			return false
		}
	}
	return true
}

// span is a time range in ms since the epoch, both ends included.
type span struct{ mint, maxt int64 }

// length is the span's length in ms, less one.
func (s span) length() uint64 { return uint64(s.maxt) - uint64(s.mint) }

const (
	// leastPieces is how many pieces, for each request that may be in flight, a range must be
	// longer than for its pieces to be longer than Options.Piece.
	leastPieces = 2
	// growPiece is how many times as long pieces become at once, and growths how often. So they are
	// of 6, 18 or 54 h. A Prometheus compacts its blocks to the same lengths, and reads all that a
	// block's index says of a series for each request that the block has a part of.
	growPiece, growths = 3, 2
)

// pieceOf returns how long the pieces of s are, in ms.
func (c *Client) pieceOf(s span) int64 {
	length := c.piece
	for range growths {
		if s.length() < uint64(length)*growPiece*leastPieces*uint64(c.concurrency) {
			break
		}
		length *= growPiece
	}
	return length
}

// maxPieces is about how many pieces a range is split into at most. Ranges such
// as "everything" come as far-off ends, and would make pieces without end.
const maxPieces = 256

// split cuts mint to maxt at the multiples of length (ms).
func split(mint, maxt, length int64) []span {
	// Differences as unsigned numbers do not overflow.
	n := uint64(floorDiv(maxt, length)) - uint64(floorDiv(mint, length))
	if n >= maxPieces {
		if k := n/maxPieces + 1; k > uint64(math.MaxInt64/length) {
			length = math.MaxInt64
		} else {
			length *= int64(k)
		}
	}
	spans := make([]span, 0, min(n, maxPieces)+1)
	for {
		left := uint64(length - 1 - (mint - floorDiv(mint, length)*length))
		if uint64(maxt)-uint64(mint) <= left {
			return append(spans, span{mint, maxt})
		}
		end := mint + int64(left)
		spans = append(spans, span{mint, end})
		mint = end + 1
	}
}

// floorDiv is the largest integer not above a/b, for a positive b.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Probe asks the store for samples of a series that it is not likely to have, once, to see
// whether it has remote read; see NoRemoteRead.
func (c *Client) Probe(ctx context.Context) error {
	now := time.Now().UnixMilli()
	ms := []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_EQ, Name: model.MetricNameLabel, Value: "promwarp_probe"}}
	q := piece{span: span{now - time.Minute.Milliseconds(), now}, ms: ms}
	_, err := c.attempt(ctx, q, &share{of: c.tally(ctx, nil)})
	return err
}

// NoRemoteRead reports whether err, of a fetch or a probe, says that what answers at the
// URL is not remote read.
func NoRemoteRead(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.StatusCode {
	case http.StatusOK:
		return e.outcome == outcomeContentType
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
		return true
	}
	return false
}

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

// piece is what one request asks for.
type piece struct {
	span
	samples  bool                   // whether samples are preferred to chunks
	ms       []*prompb.LabelMatcher // that the store is to match
	matchers []*labels.Matcher      // that the series match which are to come out of it
	view     *answer.View           // or nil
	fetch    selection.Fetch        // that it is a part of
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
		p.samples = true
		sel, err := c.fetchPiece(ctx, p, all)
		p.samples = false
		if !chunksMayDo(err) {
			return sel, err
		}
		c.onlyChunks.add(selectorKey(p.ms), struct{}{})
		c.log.Debug("Samples are no good, asking for chunks", "upstream", c.name, "err", err)
	}
	return c.fetchPiece(ctx, p, all)
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

// tally counts what the pieces of one fetch bring, all together.
type tally struct {
	limit int64        // bytes
	room  func() error // waits for the process to have memory for more
	told  *selection.Progress
	bytes atomic.Int64 // of chunks and labels so far
}

// tally returns one for a fetch.
func (c *Client) tally(ctx context.Context, told *selection.Progress) *tally {
	room := func() error { return c.memory.Room(ctx, memory.Fetched) }
	return &tally{limit: c.answers.MaxBytes, room: room, told: told}
}

// share is one attempt's part in a tally. It is taken back when the attempt
// fails and its data is thrown away.
type share struct {
	of            *tally
	bytes, series int64
	asked         int64 // bytes when room was asked for last

	wire      int64     // bytes of the answer's body
	firstByte time.Time // when its first came; zero if none did
}

// askEvery is after how many bytes more room is asked for again.
const askEvery = 1 << 20

// set says how much the attempt has brought so far: nothing, once it has failed.
func (s *share) set(bytes, series int64) error {
	more := bytes - s.bytes
	s.bytes, s.series = bytes, series
	s.of.told.Arrive(more)
	if s.of.bytes.Add(more) > s.of.limit {
		return fmt.Errorf("%w of %d bytes", selection.ErrTooLarge, s.of.limit)
	}
	if bytes-s.asked >= askEvery {
		s.asked = bytes
		return s.of.room()
	}
	return nil
}
