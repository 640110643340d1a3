// Package promapi has requests and answers be those of Prometheus's API: it reads parameters as
// Prometheus does, says in its words what is wrong with them, and writes answers and errors in its form.
//
// ParseAs and Parse read the parameters of a query, and ReadForm the form that they are in. Data and
// Error are what most doors answer with; Classify is the table of errors.
package promapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

// Errors are JSON in Prometheus's form, whatever the door. These are their
// types and statuses:
//
//	cause                                             errorType    status
//	wrong parameter, PromQL that does not parse, or
//	is longer or deeper than the limits allow         bad_data     400
//	request body too large                            bad_data     413
//	request body too slow                             timeout      408
//	evaluation failed: too many samples, many-to-many execution    422
//	more series or samples than max_series or
//	max_samples allows                                execution    422
//	upstream refused what was asked (its 400 and 422) execution    422
//	the request went away                             canceled     499
//	query timeout, fetching and the queue counted     timeout      503
//	too many queries: the queue is full or too slow   unavailable  503
//	not ready, or draining                            unavailable  503
//	no memory left for the moment (Retry-After)       unavailable  503
//	upstream cannot be reached, answers 5xx or 429,
//	rejects promwarp's credentials, breaks off        unavailable  502
//	labels and metadata of an unknown upstream        unavailable  501
//	no such door                                      not_found    404
//	a panic                                           internal     500
//
// All but the upstream's and the queue's are Prometheus's own. Prometheus itself never waits
// for a store, so it has no status for one that fails; 502 tells clients and
// load balancers that promwarp works and what is behind it does not.
const (
	BadData     = "bad_data"
	Execution   = "execution"
	Canceled    = "canceled"
	Timeout     = "timeout"
	Unavailable = "unavailable"
	NotFound    = "not_found"
	Internal    = "internal"
)

// StatusClientClosed is nginx's status for a request whose client went away.
const StatusClientClosed = 499

// ErrSlowBody is the error of reading a request's body that does not come. It is an
// os.ErrDeadlineExceeded.
var ErrSlowBody = fmt.Errorf("the request's body did not arrive in time: %w", os.ErrDeadlineExceeded)

// Error writes an error of the given type as Prometheus does, byte for byte.
func Error(w http.ResponseWriter, code int, typ, message string) {
	refuse(w, code, typ, message, Mistake{})
}

// Mistake says what is wrong with a request, for programs.
type Mistake struct {
	Code  string `json:"code,omitempty"`  // which stays as it is when messages change
	Field string `json:"field,omitempty"` // of the request
	Hint  string `json:"hint,omitempty"`  // what to do
}

// Wrong refuses a request that is wrong in Prometheus's form, with what is wrong beside it.
func Wrong(w http.ResponseWriter, m Mistake, message string) {
	refuse(w, http.StatusBadRequest, BadData, message, m)
}

// refuse writes an error.
func refuse(w http.ResponseWriter, code int, typ, message string, m Mistake) {
	b, err := encode.JSON.Marshal(struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
		Mistake
	}{"error", typ, message, m})
	write(w, code, b, err)
}

// Data writes an answer in Prometheus's form.
func Data(w http.ResponseWriter, data any) { Warned(w, data, nil, nil) }

// Warned writes an answer as Prometheus does, byte for byte, with warnings and infos where there are
// any: encode.JSON must be able to write the data.
func Warned(w http.ResponseWriter, data any, warnings, infos []string) {
	b, err := encode.JSON.Marshal(struct {
		Status   string   `json:"status"`
		Data     any      `json:"data"`
		Warnings []string `json:"warnings,omitempty"`
		Infos    []string `json:"infos,omitempty"`
	}{"success", data, warnings, infos})
	write(w, http.StatusOK, b, err)
}

// Invalid says that a parameter is wrong, in Prometheus's words.
func Invalid(w http.ResponseWriter, parameter string, err error) {
	Error(w, http.StatusBadRequest, BadData, fmt.Sprintf("invalid parameter %q: %v", parameter, err))
}

// Failed answers with the error of an evaluation. One that found no memory for the moment may be asked
// for again in a second.
func Failed(w http.ResponseWriter, err error) {
	code, typ := Classify(err)
	if errors.As(err, new(*memory.BusyError)) {
		w.Header().Set("Retry-After", RetryAfter(nil))
	}
	Error(w, code, typ, err.Error())
}

// Always is a door that gives the same error to all.
func Always(code int, typ, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { Error(w, code, typ, message) }
}

// Text writes plain text.
func Text(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// Answered calls what answers a request, and reports whether the answer broke off, which a reverse proxy
// says by a panic.
func Answered(answer func()) (brokenOff bool) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			brokenOff = true
		} else if p != nil {
			panic(p)
		}
	}()
	answer()
	return false
}

// UnreadBody answers a request whose body is too large, does not come or finds no memory, and reports
// whether err says so.
func UnreadBody(w http.ResponseWriter, err error) bool {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		Error(w, http.StatusRequestEntityTooLarge, BadData, fmt.Sprintf("the request's body is larger than the %d bytes that promwarp takes", large.Limit))
	case errors.Is(err, ErrSlowBody):
		Error(w, http.StatusRequestTimeout, Timeout, err.Error())
	case memory.Exhausted(err):
		Failed(w, err)
	default:
		return false
	}
	return true
}

// RetryAfter is the value of the header Retry-After for a request that was refused for now:
// what the queue expects if that refused it, else a second.
func RetryAfter(err error) string {
	if r, ok := errors.AsType[*queue.Rejected](err); ok {
		return strconv.Itoa(int(r.RetryAfter() / time.Second))
	}
	return "1"
}

func write(w http.ResponseWriter, code int, b []byte, err error) {
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"status":"error","errorType":"internal","error":"the answer cannot be written as JSON"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Del("Content-Length")
	w.WriteHeader(code)
	_, _ = w.Write(b)
}

// Classify gives the status and type of an error from evaluation.
func Classify(err error) (code int, typ string) {
	upstream, _ := errors.AsType[*remoteread.Error](err)
	switch {
	case errors.As(err, new(*parallel.Panic)):
		return http.StatusInternalServerError, Internal
	case errors.As(err, new(*queue.Rejected)):
		return http.StatusServiceUnavailable, Unavailable
	case errors.As(err, new(promql.ErrQueryTimeout)), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, Timeout
	case errors.As(err, new(promql.ErrQueryCanceled)), errors.Is(err, context.Canceled):
		return StatusClientClosed, Canceled
	case errors.As(err, new(*memory.BusyError)):
		return http.StatusServiceUnavailable, Unavailable
	case upstream != nil && !errors.Is(err, selection.ErrTooLarge) &&
		upstream.StatusCode != http.StatusBadRequest && upstream.StatusCode != http.StatusUnprocessableEntity: // it failed, and refused nothing
		return http.StatusBadGateway, Unavailable
	case errors.As(err, new(promql.ErrStorage)):
		return http.StatusInternalServerError, Internal
	case errors.As(err, new(*parser.ParseErr)), errors.As(err, new(parser.ParseErrors)), errors.As(err, new(*planner.LimitError)):
		return http.StatusBadRequest, BadData
	}
	return http.StatusUnprocessableEntity, Execution
}

// Plain returns err, and of an upstream that cannot be reached its own error alone: that says first
// what is wrong, and the rest says only what for.
func Plain(err error) error {
	var up *remoteread.Error
	if errors.As(err, new(*remoteread.UnreachableError)) && errors.As(err, &up) {
		return up
	}
	return err
}
