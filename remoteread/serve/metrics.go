package serve

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
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

// How chunks were sent.
const (
	sentAsStored  = "as stored"
	sentCut       = "cut"
	sentReencoded = "reencoded"
)

type metrics struct {
	queries  prometheus.Gauge
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
	series   prometheus.Counter
	chunks   map[string]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	chunks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "promwarp_read_chunks_total",
		Help: "Chunks sent to remote readers: as they are stored, cut to the range asked for, or in an encoding that the reader knows.",
	}, []string{"sent"})
	m := &metrics{
		// By the name that it has in a Prometheus.
		queries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prometheus_remote_read_handler_queries",
			Help: "The current number of remote read queries that are either in execution or queued on the handler.",
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "promwarp_read_requests_total",
			Help: "Remote read requests by form of the answer and outcome.",
		}, []string{"form", "outcome"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "promwarp_read_bytes_total",
			Help: "Bytes of answers to remote readers.",
		}),
		series: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "promwarp_read_series_total",
			Help: "Series sent to remote readers.",
		}),
		chunks: map[string]prometheus.Counter{},
	}
	for _, sent := range []string{sentAsStored, sentCut, sentReencoded} {
		m.chunks[sent] = chunks.WithLabelValues(sent)
	}
	if reg != nil {
		reg.MustRegister(m.queries, m.requests, m.bytes, m.series, chunks)
	}
	return m
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
