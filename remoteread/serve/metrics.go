package serve

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/instrument"
)

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

func newMetrics(reg prometheus.Registerer) *metrics {
	f := instrument.With(reg)
	return &metrics{
		// By the name that it has in a Prometheus.
		queries:  f.Gauge("prometheus_remote_read_handler_queries", "The current number of remote read queries that are either in execution or queued on the handler."),
		requests: f.Counters("promwarp_read_requests_total", "Remote read requests by form of the answer and outcome.", "form", "outcome"),
		bytes:    f.Counter("promwarp_read_bytes_total", "Bytes of answers to remote readers."),
	}
}

func (m *metrics) finished(form, outcome string, bytes int64) {
	m.requests.WithLabelValues(form, outcome).Inc()
	m.bytes.Add(float64(bytes))
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
