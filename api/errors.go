package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/planner"
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
	typeBadData     = "bad_data"
	typeExecution   = "execution"
	typeCanceled    = "canceled"
	typeTimeout     = "timeout"
	typeUnavailable = "unavailable"
	typeNotFound    = "not_found"
	typeInternal    = "internal"
)

// statusClientClosed is nginx's status for a request whose client went away.
const statusClientClosed = 499

// respondError writes an error in Prometheus's form.
func respondError(w http.ResponseWriter, code int, typ, message string) {
	respondJSON(w, code, struct {
		Status    string `json:"status"`
		ErrorType string `json:"errorType"`
		Error     string `json:"error"`
	}{"error", typ, message})
}

// respondData writes an answer in Prometheus's form.
func respondData(w http.ResponseWriter, data any) {
	respondJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		Data   any    `json:"data"`
	}{"success", data})
}

func respondJSON(w http.ResponseWriter, code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"status":"error","errorType":"internal","error":"the answer cannot be written as JSON"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Del("Content-Length")
	w.WriteHeader(code)
	_, _ = w.Write(b)
}

// classify gives the status and type of an error from evaluation.
func classify(err error) (code int, typ string) {
	var (
		timeout  promql.ErrQueryTimeout
		canceled promql.ErrQueryCanceled
		stored   promql.ErrStorage
		syntax   *parser.ParseErr
		syntaxes parser.ParseErrors
		rejected *queue.Rejected
		panicked *rescue.Panic
		beyond   *planner.LimitError
	)
	switch {
	case errors.As(err, &panicked):
		return http.StatusInternalServerError, typeInternal
	case errors.As(err, &rejected):
		return http.StatusServiceUnavailable, typeUnavailable
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, typeTimeout
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return statusClientClosed, typeCanceled
	case errors.As(err, new(*memory.BusyError)):
		return http.StatusServiceUnavailable, typeUnavailable
	case isUnavailable(err):
		return http.StatusBadGateway, typeUnavailable
	case errors.As(err, &stored):
		return http.StatusInternalServerError, typeInternal
	case errors.As(err, &syntax), errors.As(err, &syntaxes), errors.As(err, &beyond):
		return http.StatusBadRequest, typeBadData
	}
	return http.StatusUnprocessableEntity, typeExecution
}
