// Package instrument makes metrics that have a name and a help text, each in one line.
package instrument

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Factory makes metrics and registers them. A metric that is registered already panics.
type Factory struct{ promauto.Factory }

// With returns a factory that registers with r; nil registers nowhere.
func With(r prometheus.Registerer) Factory { return Factory{promauto.With(r)} }

// Counter makes a counter.
func (f Factory) Counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters makes counters with labels.
func (f Factory) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// CounterOf makes a counter whose value is read when it is asked for.
func (f Factory) CounterOf(name, help string, value func() float64) {
	f.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
}

// Gauge makes a gauge.
func (f Factory) Gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges makes gauges with labels.
func (f Factory) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// GaugeOf makes a gauge whose value is read when it is asked for.
func (f Factory) GaugeOf(name, help string, value func() float64) {
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}
