package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

// fault is an error with the status that it is answered with.
type fault struct {
	status int
	text   string
	// retryAfter is when to ask again; 0 says nothing about that.
	retryAfter time.Duration
}

func (f *fault) Error() string { return f.text }

// refuse is the error for a request that is not answered as it is wrong or too large.
func refuse(format string, args ...any) error {
	return &fault{status: http.StatusBadRequest, text: fmt.Errorf(format, args...).Error()}
}

// statusClientGone is what other servers note where the client has gone: it is not read.
const statusClientGone = 499

// faultOf says how err is answered. Prometheus answers 500 to whatever is not the request's fault.
func faultOf(err error) *fault {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, new(*memory.BusyError)):
		return &fault{status: http.StatusServiceUnavailable, retryAfter: time.Second}
	case errors.As(err, new(*memory.TooLargeError)), errors.Is(err, selection.ErrTooLarge):
		return &fault{status: http.StatusUnprocessableEntity}
	case errors.Is(err, context.Canceled):
		return &fault{status: statusClientGone}
	}
	return &fault{status: http.StatusInternalServerError}
}

// failure is err, or what ended ctx: whatever else went wrong follows from that.
func failure(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// response is where an answer is written. It notes whether any of it has gone out, since
// after that the status cannot say what went wrong.
type response struct {
	http.ResponseWriter
	begun     bool
	brokenOff bool
	bytes     int64
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.begun = true
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// flush sends what has been written.
func (w *response) flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// errorGrace is how long after the deadline there is for saying that it has passed.
const errorGrace = time.Second

// breakOff ends a stream of frames as Prometheus does, with the error's text. It reads as
// no frame, so no reader takes the answer for whole, and promwarp's client shows it.
func (w *response) breakOff(err error) {
	w.brokenOff = true
	_, _ = w.Write([]byte(err.Error() + "\n"))
	w.flush()
}

// Forms of an answer.
const (
	formSamples = "samples"
	formChunks  = "chunks"
)

// Outcomes of a request.
const (
	outcomeOK        = "ok"
	outcomeRefused   = "refused"    // wrong, or beyond a limit
	outcomeCanceled  = "canceled"   // the client went away
	outcomeFailed    = "failed"     // with a status that says so
	outcomeBrokenOff = "broken off" // after a part of the answer
)

type metrics struct {
	queries  prometheus.Gauge
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
}

// outcomeOf is how a request ended whose answer failed with err, which may be nil.
func outcomeOf(err error, brokenOff bool) string {
	var f *fault
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, context.Canceled):
		return outcomeCanceled
	case brokenOff:
		return outcomeBrokenOff
	case errors.As(err, &f) && (f.status == http.StatusBadRequest || f.retryAfter > 0):
		return outcomeRefused
	}
	return outcomeFailed
}
