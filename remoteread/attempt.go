package remoteread

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

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
	parent, span := tracing.Start(parent, "remote read", trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("upstream", c.name))
	}
	defer func() { tracing.End(span, err) }()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	dog := newWatchdog(c.timeout, func() { cancel(errStalled) })
	defer dog.rest()

	// stopped is the error when the context ended, from outside or because the
	// store made no progress: then whatever else went wrong follows from that.
	stopped := func(waitingFor string) *Error {
		switch {
		case parent.Err() != nil:
			return c.canceled(parent)
		case errors.Is(context.Cause(ctx), errStalled):
			return c.timedOut(waitingFor)
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

	dog.wake()
	resp, err := c.http.Do(req)
	dog.rest()
	if err != nil {
		if e := stopped("answer"); e != nil {
			return e
		}
		return c.connection(err)
	}
	defer resp.Body.Close()
	in := &progressReader{from: resp.Body, dog: dog, most: 2*c.answers.MaxBytes + wireSlack}
	defer func() {
		for _, r := range rides {
			r.sh.wire, r.sh.firstByte = in.bytes, in.first
		}
		c.metrics.bytes.Add(float64(in.bytes))
	}()

	typ, message := mediaType(resp.Header)
	streamed := typ == typeStreamed && (message == "" || message == messageStreamed)
	if resp.StatusCode != http.StatusOK || !streamed && typ != typeSamples {
		dog.limit = min(dog.limit, errorBodyTimeout)
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

	view := rides[0].q.view // the same labels and witness for all
	var labelled <-chan confirmed
	if view != nil && view.Witness == nil {
		labelled = c.confirm(ctx)
	}
	parts := make([]*answer.Part, len(rides))
	for i, r := range rides {
		parts[i] = r.part()
	}
	testified, err := c.answers.Read(in, streamed, parts)
	if view != nil && !testified && slices.ContainsFunc(parts, func(p *answer.Part) bool { return p.Sel != nil }) {
		gone := labelled == nil
		if gone {
			labelled = c.confirm(ctx)
		}
		if unlike := check(ctx, view, labelled); unlike != nil {
			parts, err = nil, unlike // what came may have been stripped of the wrong labels
		} else if gone {
			c.witness.series.Store(nil) // it is no more
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

// Content types of answers.
const (
	typeSamples     = "application/x-protobuf"
	typeStreamed    = "application/x-streamed-protobuf"
	messageStreamed = "prometheus.ChunkedReadResponse"
)

var errStalled = errors.New("no progress")

// watchdog ends a request that waits for the store longer than a limit at a
// stretch. It watches progress, not total time, so that a large answer that
// keeps arriving is let finish, and one that stalls is ended.
type watchdog struct {
	limit time.Duration
	timer *time.Timer
}

func newWatchdog(limit time.Duration, bark func()) *watchdog {
	d := &watchdog{limit: limit, timer: time.AfterFunc(limit, bark)}
	d.rest()
	return d
}

// wake starts a wait, rest ends it.
func (d *watchdog) wake() { d.timer.Reset(d.limit) }
func (d *watchdog) rest() { d.timer.Stop() }

// progressReader reads a body under a watchdog and counts its bytes.
type progressReader struct {
	from  io.Reader
	dog   *watchdog
	first time.Time // when the first byte came; zero before
	bytes int64
	most  int64 // bytes, after which reading fails
}

// wireSlack is how many bytes an answer may have beyond twice what a fetch may bring: labels
// are repeated where a series does not fit into a frame.
const wireSlack = 1 << 20

func (r *progressReader) Read(p []byte) (int, error) {
	if r.bytes > r.most {
		return 0, fmt.Errorf("%w: %d bytes have come", selection.ErrTooLarge, r.bytes)
	}
	r.dog.wake()
	n, err := r.from.Read(p)
	r.dog.rest()
	if r.bytes == 0 && n > 0 {
		r.first = time.Now()
	}
	r.bytes += int64(n)
	return n, err
}
