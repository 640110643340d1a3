package remoteread

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/remoteread/answer"
	"github.com/promwarp/promwarp/selection"
)

const (
	// maxErrorBody is how much of the body of an answer that is an error is
	// read, in bytes, so that the connection can be used again.
	maxErrorBody = 16 << 10
	// errorBodyTimeout is how long such a body may take. It adds nothing but
	// text to an error that is certain.
	errorBodyTimeout = 2 * time.Second
)

func outcomeOf(err error) outcome {
	var e *Error
	switch {
	case err == nil:
		return outcomeOK
	case errors.As(err, &e):
		return e.outcome
	default:
		return outcomeConnection
	}
}

// send sends a request for all rides, which get what came of each, and reads its answer to the end.
// An error is that of the rides that have got nothing.
func (c *Client) send(parent context.Context, rides []*ride) (err error) {
	what := "remote read"
	if c.store != nil {
		what = "thanos.Store/Series"
	}
	parent, span := tracing.Start(parent, what, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("upstream", c.name))
	}
	defer func() { tracing.End(span, err) }()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	// The timer ends a request that waits for the store longer than the limit at a stretch. So a large
	// answer that keeps arriving may finish, and one that stalls is ended.
	stall := time.AfterFunc(c.timeout, func() { cancel(errStalled) })
	defer stall.Stop()
	in := &progress{stall: stall, limit: c.timeout, most: 2*c.answers.MaxBytes + wireSlack}
	defer func() {
		for _, r := range rides {
			r.wire, r.firstByte = in.bytes, in.first
		}
		c.metrics.bytes.Add(float64(in.bytes))
	}()
	if c.store != nil {
		return c.askStore(ctx, rides[0], in) // which is alone: see mayShare
	}
	return c.post(ctx, parent, rides, in)
}

// post sends rides as one request to a server with remote read. Parent is ctx without the end of a
// request that stalls.
func (c *Client) post(ctx, parent context.Context, rides []*ride, in *progress) error {
	// stopped is the error when the context ended, from outside or because the
	// store made no progress: then whatever else went wrong follows from that.
	stopped := func(waitingFor string) *Error {
		switch {
		case parent.Err() != nil:
			return c.canceled(parent)
		case errors.Is(context.Cause(ctx), errStalled):
			return c.fail(outcomeTimeout, false,
				fmt.Errorf("no %s for %s: %w", waitingFor, c.timeout, context.DeadlineExceeded),
				"raise remote_timeout, or narrow the selector or the time range")
		}
		return nil
	}

	data, err := encode(rides)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(data))
	if err != nil {
		return c.connection(err)
	}
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("Accept-Encoding", "snappy")
	req.Header.Set("Content-Type", typeSamples)
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")

	in.wait()
	resp, err := c.http.Do(req)
	in.stall.Stop()
	if err != nil {
		if e := stopped("answer"); e != nil {
			return e
		}
		return c.connection(err)
	}
	defer resp.Body.Close()
	in.from = resp.Body

	typ, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		typ = ""
	}
	message := params["proto"]
	streamed := typ == typeStreamed && (message == "" || message == messageStreamed)
	if resp.StatusCode != http.StatusOK || !streamed && typ != typeSamples {
		in.limit = min(in.limit, errorBodyTimeout)
		// An error of the body only shortens the message.
		text, _ := io.ReadAll(io.LimitReader(in, maxErrorBody))
		if parent.Err() != nil {
			return c.canceled(parent)
		}
		if resp.StatusCode != http.StatusOK {
			return c.status(resp, text)
		}
		return c.contentType(resp, text)
	}

	parts := make([]*answer.Part, len(rides))
	for i, r := range rides {
		parts[i] = &answer.Part{Ctx: r.ctx, Asked: r.q.matchers, View: r.q.view, Exact: r.q.samples, Expected: r.q.fetch.Expected, Count: r.set}
		if like := r.of.came.Load(); like != nil { // of which a piece that is longer brings more
			share := min(1, float64(r.q.length()+1)/float64(like.length+1))
			parts[i].Expected.Chunks, parts[i].Expected.Bytes = int(share*like.chunks), int(share*like.bytes)
		}
	}
	testified, err := c.answers.Read(in, streamed, parts)
	view := rides[0].q.view // the same labels and witness for all
	if view != nil && !testified && slices.ContainsFunc(parts, func(p *answer.Part) bool { return p.Sel != nil }) {
		now, unread := c.external.Confirm(ctx)
		switch {
		case unread != nil:
			parts, err = nil, &unconfirmedError{unread}
		case !view.Added(now):
			parts, err = nil, answer.ErrRelabelled // what came may have been stripped of the wrong labels
		case view.Witness != nil:
			c.witness.Store(nil) // it is no more
		}
	}
	for i, p := range parts {
		rides[i].sel = p.Sel
	}
	if err != nil {
		if e := stopped("further bytes of the answer"); e != nil {
			return e
		}
		if memory.Exhausted(err) {
			return err // the store is not to blame
		}
		return c.content(err)
	}
	return nil
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

// Content types of answers.
const (
	typeSamples     = "application/x-protobuf"
	typeStreamed    = "application/x-streamed-protobuf"
	messageStreamed = "prometheus.ChunkedReadResponse"
)

var errStalled = errors.New("no progress")

// progress counts the bytes of an answer that is read. No wait for more may take longer than a limit.
type progress struct {
	from  io.Reader // what Read reads
	stall *time.Timer
	limit time.Duration
	first time.Time // when the first byte came; zero before
	bytes int64
	most  int64 // bytes, after which reading fails
}

// wireSlack is how many bytes an answer may have beyond twice what a fetch may bring: labels
// are repeated where a series does not fit into a frame.
const wireSlack = 1 << 20

// wait begins to wait for more.
func (p *progress) wait() { p.stall.Reset(p.limit) }

// came ends waiting, and counts what has come.
func (p *progress) came(n int) {
	p.stall.Stop()
	if p.bytes == 0 && n > 0 {
		p.first = time.Now()
	}
	p.bytes += int64(n)
}

// excess is the error once too much has come.
func (p *progress) excess() error {
	if p.bytes > p.most {
		return fmt.Errorf("%w: %d bytes have come", selection.ErrTooLarge, p.bytes)
	}
	return nil
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	if err := p.excess(); err != nil {
		return 0, err
	}
	p.wait()
	n, err := p.from.Read(b)
	p.came(n)
	return n, err
}

// ride is a question on its way in a request, once.
type ride struct {
	ctx context.Context // of who asks
	q   piece

	of            *tally // of which it is a part, until it fails and its data is thrown away
	bytes, series int64
	asked         int64     // bytes when room was asked for last
	wire          int64     // bytes of the answer's body
	firstByte     time.Time // when its first came; zero if none did

	sel *selection.Selection // what came; nil with an error
	err error
}

// askEvery is after how many bytes more room is asked for again.
const askEvery = 1 << 20

// set says how much the attempt has brought so far: nothing, once it has failed.
func (r *ride) set(bytes, series int64) error {
	more := bytes - r.bytes
	r.bytes, r.series = bytes, series
	r.of.told.Arrive(more)
	if r.of.bytes.Add(more) > r.of.limit {
		return fmt.Errorf("%w of %d bytes", selection.ErrTooLarge, r.of.limit)
	}
	if bytes-r.asked >= askEvery {
		r.asked = bytes
		return r.of.room()
	}
	return nil
}

// inTurn makes one request for rides when there is a place for it, unless ctx ends before, and tells
// each ride what came of it.
func (c *Client) inTurn(ctx context.Context, rides ...*ride) {
	series := 0
	for _, r := range rides {
		series += len(r.q.fetch.Expected.Series)
	}
	small := rides[0].q.length() < uint64(smallSpan.Milliseconds()) && series <= smallSeries
	leave, err := c.lanes.enter(ctx, small)
	if err == nil {
		defer leave()
	}
	if ctx.Err() != nil {
		for _, r := range rides {
			r.err = c.canceled(ctx)
		}
		return
	}
	c.metrics.inFlight.Inc()
	start := time.Now()
	err = c.send(ctx, rides)
	c.metrics.inFlight.Dec()
	c.metrics.seconds.Observe(time.Since(start).Seconds())
	c.metrics.requests.WithLabelValues(string(outcomeOf(err))).Inc()
	for _, r := range rides {
		if r.sel == nil {
			// Without an error the others went on without it.
			if r.err = err; err == nil {
				r.err = c.canceled(r.ctx)
			}
		}
		one := selection.Exchange{
			MinT: r.q.mint, MaxT: r.q.maxt, Sent: start, FirstByte: r.firstByte, Ended: time.Now(), Bytes: r.wire,
			Outcome: string(outcomeOf(r.err)),
		}
		if r.err == nil {
			one.Series, one.Samples = r.sel.NumSeries(), r.sel.NumSamples()
			c.metrics.series.Add(float64(r.series))
		}
		r.q.fetch.Stats.Add(one)
	}
}

const (
	// corruptRetries is how often a piece is fetched again because its bytes
	// were damaged. TCP's checksum lets one in a great many errors pass; twice
	// in a row means something damages them every time.
	corruptRetries = 1
	// maxRetryAfter is the longest wait asked for by a store that is granted.
	// Someone waits for the answer, and had better hear that it will be long.
	maxRetryAfter = 30 * time.Second
)

// fetchPiece fetches one piece, again from its start where that may help: when
// there was no answer, a status of 5xx or 429, an answer cut off or damaged, or samples that are no
// good where chunks may be. A store that made no progress within the timeout is not asked again, as
// that would double the work of one that is overloaded.
func (c *Client) fetchPiece(ctx context.Context, q piece, all *tally) (*selection.Selection, error) {
	q.samples = c.prefersSamples(q.fetch.Expected)
	corrupt := 0
	for n := 1; ; n++ {
		r := &ride{ctx: ctx, q: q, of: all}
		c.inTurn(ctx, r)
		if r.err == nil {
			all.came.Store(&size{q.length(), float64(r.sel.NumChunks()), float64(r.sel.PayloadBytes() - r.sel.TextBytes())})
			return r.sel, nil
		}
		_ = r.set(0, 0)
		if q.samples && chunksMayDo(r.err) {
			if until := q.fetch.Expected.NoSamples; until != nil {
				until.Store(time.Now().Add(noSamplesFor).UnixNano())
			}
			c.log.Debug("Samples are no good, asking for chunks", "upstream", c.name, "err", r.err)
			q.samples, corrupt, n = false, 0, 0
			continue
		}
		var e *Error
		if !errors.As(r.err, &e) {
			return nil, r.err
		}
		e.attempts = n
		if e.outcome == outcomeCorrupt {
			corrupt++
		}
		if !e.Retryable || n > c.retries || corrupt > corruptRetries {
			return nil, e
		}
		wait := max(c.backoff(n), e.retryAfter)
		if e.retryAfter > maxRetryAfter {
			e.advice = "the store asks to wait " + e.retryAfter.Round(time.Second).String() + "; " + e.advice
			return nil, e
		}
		// What happened says more than that the time was up while waiting.
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return nil, e
		}
		c.log.Warn("Remote read failed and is tried again", "upstream", c.name, "attempt", n, "wait", wait, "err", e.Err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, c.canceled(ctx)
		}
		c.metrics.retries.Inc()
	}
}

// backoff is the wait after n failed attempts: twice as long each time, half
// of it random so that pieces that failed together do not come back together.
func (c *Client) backoff(n int) time.Duration {
	d := c.minBackoff << (n - 1)
	return d/2 + rand.N(d/2+1)
}

// lanes bound the requests in flight. Small ones have places of their own besides those that
// all share, so that those of a dashboard's newest minutes, or of an alert, do not wait for days
// of many series that others want. Who came first goes first.
type lanes struct{ shared, small chan struct{} }

// smallSpan and smallSeries are what a small request asks for at most. How many series
// will come is known of selectors that are kept.
const (
	smallSpan   = 15 * time.Minute
	smallSeries = 10_000
)

// newLanes returns lanes with concurrency places for all requests, and half as many for small ones.
func newLanes(concurrency int) lanes {
	return lanes{make(chan struct{}, concurrency), make(chan struct{}, concurrency-concurrency/2)}
}

// enter waits until a request may be sent, or until ctx ends. leave must be called when it has been
// answered.
func (l lanes) enter(ctx context.Context, small bool) (leave func(), err error) {
	own := l.small
	if !small {
		own = nil
	}
	select {
	case own <- struct{}{}:
		return func() { <-own }, nil
	default:
	}
	select {
	case own <- struct{}{}:
		return func() { <-own }, nil
	case l.shared <- struct{}{}:
		return func() { <-l.shared }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
