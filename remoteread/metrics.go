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
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "promwarp", Subsystem: "remote_read", Name: name, Help: help}
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts(opts("requests_total",
		"Remote-read requests sent to the store, retries included, by outcome.")), []string{upstreamLabel, "outcome"})
	retries := prometheus.NewCounterVec(prometheus.CounterOpts(opts("retries_total",
		"Remote-read requests that were sent again after a failure.")), []string{upstreamLabel})
	bytes := prometheus.NewCounterVec(prometheus.CounterOpts(opts("received_bytes_total",
		"Bytes of answer bodies received from the store, as they came over the network.")), []string{upstreamLabel})
	series := prometheus.NewCounterVec(prometheus.CounterOpts(opts("series_total",
		"Series received from the store; one in several answers counts in each.")), []string{upstreamLabel})
	inFlight := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("requests_in_flight",
		"Remote-read requests whose answer has not arrived in full.")), []string{upstreamLabel})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "promwarp", Subsystem: "remote_read", Name: "request_duration_seconds",
		Help:                            "Time from sending a remote-read request to the end of its answer.",
		Buckets:                         []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{upstreamLabel})

	var errs [6]error
	requests, errs[0] = register(r, requests)
	retries, errs[1] = register(r, retries)
	bytes, errs[2] = register(r, bytes)
	series, errs[3] = register(r, series)
	inFlight, errs[4] = register(r, inFlight)
	seconds, errs[5] = register(r, seconds)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return &metrics{
		requests: requests.MustCurryWith(prometheus.Labels{upstreamLabel: upstream}),
		retries:  retries.WithLabelValues(upstream),
		bytes:    bytes.WithLabelValues(upstream),
		series:   series.WithLabelValues(upstream),
		seconds:  seconds.WithLabelValues(upstream),
		inFlight: inFlight.WithLabelValues(upstream),
	}, nil
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
