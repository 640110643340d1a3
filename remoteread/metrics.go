package remoteread

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/instrument"
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

func newMetrics(r prometheus.Registerer, upstream string) *metrics {
	f := instrument.With(prometheus.WrapRegistererWith(prometheus.Labels{"upstream": upstream}, r))
	const prefix = "promwarp_remote_read_"
	return &metrics{
		requests: f.Counters(prefix+"requests_total", "Remote-read requests sent to the store, retries included, by outcome.", "outcome"),
		retries:  f.Counter(prefix+"retries_total", "Remote-read requests that were sent again after a failure."),
		bytes:    f.Counter(prefix+"received_bytes_total", "Bytes of answer bodies received from the store, as they came over the network."),
		series:   f.Counter(prefix+"series_total", "Series received from the store; one in several answers counts in each."),
		inFlight: f.Gauge(prefix+"requests_in_flight", "Remote-read requests whose answer has not arrived in full."),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name:                            prefix + "request_duration_seconds",
			Help:                            "Time from sending a remote-read request to the end of its answer.",
			Buckets:                         []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			NativeHistogramBucketFactor:     1.1,
			NativeHistogramMaxBucketNumber:  100,
			NativeHistogramMinResetDuration: time.Hour,
		}),
	}
}
