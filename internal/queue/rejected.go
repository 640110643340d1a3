package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/instrument"
)

// Reason is why someone was sent away.
type Reason string

// The reasons.
const (
	// Full is that as many wait as may.
	Full Reason = "full"
	// Displaced is that another client with fewer waiting came when the queue was full.
	Displaced Reason = "displaced"
	// Late is that the wait took as long as it may.
	Late Reason = "late"
	// gone is that the context ended, which is no *Rejected.
	gone Reason = "gone"
)

// Rejected is the error of one that is sent away.
type Rejected struct {
	Reason Reason
	Limits Limits // those that held
}

// Error implements error.
func (r *Rejected) Error() string {
	switch r.Reason {
	case Late:
		return fmt.Sprintf("none of %d slots became free within %s, which is the longest wait in the queue", r.Limits.Slots, r.Limits.MaxWait)
	case Displaced:
		return fmt.Sprintf("the queue is full with %d waiting, most of them from this client, and another client came", r.Limits.MaxWaiting)
	}
	return fmt.Sprintf("all %d slots are in use and the queue is full with %d waiting", r.Limits.Slots, r.Limits.MaxWaiting)
}

// RetryAfter is how long to wait before trying again, in whole seconds: as long as the
// queue's wait, after which all who wait now have their slot or have gone.
func (r *Rejected) RetryAfter() time.Duration {
	return max((r.Limits.MaxWait + time.Second - 1).Truncate(time.Second), time.Second)
}

// metrics tell how long a queue is.
type metrics struct {
	waiting  prometheus.Gauge
	running  prometheus.Gauge
	wait     prometheus.Histogram
	rejected *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := instrument.With(reg)
	m := &metrics{
		waiting: f.Gauge("promwarp_queue_waiting", "Requests that wait for a slot."),
		running: f.Gauge("promwarp_queue_running", "Slots in use."),
		wait: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "promwarp_queue_wait_seconds",
			Help:    "How long requests waited in the queue, those sent away included.",
			Buckets: []float64{.001, .01, .1, .3, 1, 3, 10, 30},
		}),
		rejected: f.Counters("promwarp_queue_rejected_total", "Requests that got no slot: the queue was full, others displaced them, they were late, or they had gone.", "reason"),
	}
	for _, r := range []Reason{Full, Displaced, Late, gone} {
		m.rejected.WithLabelValues(string(r))
	}
	return m
}

// reject counts a wait that ended with err.
func (m *metrics) reject(err error) {
	reason := gone
	var r *Rejected
	if errors.As(err, &r) {
		reason = r.Reason
	}
	m.rejected.WithLabelValues(string(reason)).Inc()
}
