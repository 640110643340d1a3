package remoteread

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one client.
type metrics struct {
	requests *prometheus.CounterVec // by outcome
	retries  prometheus.Counter
	bytes    prometheus.Counter
	series   prometheus.Counter
	seconds  prometheus.Observer
	inFlight prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, upstream string) (*metrics, error) {
	const upstreamLabel = "upstream"
	var failed error
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "promwarp", Subsystem: "remote_read", Name: name, Help: help}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		vec, err := register(r, prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), append([]string{upstreamLabel}, labels...)))
		failed = errors.Join(failed, err)
		return vec.MustCurryWith(prometheus.Labels{upstreamLabel: upstream})
	}
	inFlight, err := register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("requests_in_flight",
		"Remote-read requests whose answer has not arrived in full.")), []string{upstreamLabel}))
	seconds, err2 := register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "promwarp", Subsystem: "remote_read", Name: "request_duration_seconds",
		Help:                            "Time from sending a remote-read request to the end of its answer.",
		Buckets:                         []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{upstreamLabel}))
	m := &metrics{
		requests: counter("requests_total", "Remote-read requests sent to the store, retries included, by outcome.", "outcome"),
		retries:  counter("retries_total", "Remote-read requests that were sent again after a failure.").WithLabelValues(),
		bytes:    counter("received_bytes_total", "Bytes of answer bodies received from the store, as they came over the network.").WithLabelValues(),
		series:   counter("series_total", "Series received from the store; one in several answers counts in each.").WithLabelValues(),
		seconds:  seconds.WithLabelValues(upstream),
		inFlight: inFlight.WithLabelValues(upstream),
	}
	return m, errors.Join(failed, err, err2)
}

// register registers c, or returns what another client has registered already.
func register[C prometheus.Collector](r prometheus.Registerer, c C) (C, error) {
	if r == nil {
		return c, nil
	}
	err := r.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if old, ok := already.ExistingCollector.(C); ok {
			return old, nil
		}
	}
	return c, err
}
