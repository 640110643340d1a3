package engine

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/instrument"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
)

// metrics count what ran where, so that nothing falls back silently.
type metrics struct {
	queries  *prometheus.CounterVec
	nodes    *prometheus.CounterVec
	declined *prometheus.CounterVec
	stayed   *prometheus.CounterVec
	samples  prometheus.Counter
	bytes    prometheus.Counter
	kept     prometheus.Counter
	lost     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, cpu *cpuexec.Executor) *metrics {
	f := instrument.With(reg)
	f.GaugeOf("promwarp_cpu_decoded_bytes", "Memory that the decoded columns of hot series take, a part of cache.host-bytes.", func() float64 { return float64(cpu.DecodedBytes()) })
	return &metrics{
		queries:  f.Counters("promwarp_queries_total", "Queries by how much of them ran on an executor: whole, part, none, or idle where no samples are read.", "accelerated"),
		nodes:    f.Counters("promwarp_plan_nodes_total", "Parts of queries by the executor that evaluated them and, for Prometheus's engine, the kind of expression.", "executor", "kind"),
		declined: f.Counters("promwarp_parts_declined_total", "Parts of queries that an executor declined after seeing their data, by reason.", "reason"),
		stayed:   f.Counters("promwarp_parts_left_total", "Expressions left to Prometheus's engine, by reason; those that only wait for such a one are not counted.", "reason"),
		samples:  f.Counter("promwarp_cpu_samples_decoded_total", "Samples decoded by the CPU executor."),
		bytes:    f.Counter("promwarp_cpu_chunk_bytes_total", "Bytes of encoded chunks decoded by the CPU executor."),
		kept:     f.Counter("promwarp_cpu_samples_kept_total", "Samples that the CPU executor took from columns decoded for earlier queries."),
		lost:     f.Counter("promwarp_cpu_samples_lost_total", "Samples that the CPU executor decoded for parts of queries that it then declined."),
	}
}

// count records a query that has ended.
func (m *metrics) count(q *query) {
	if q.root == nil {
		m.queries.WithLabelValues("none").Inc()
		return
	}
	taken, other := 0, 0
	q.root.Walk(func(d *plan.Decision) {
		if d.Idle {
			return
		}
		m.nodes.WithLabelValues(d.Executor, d.Kind).Inc()
		if w := d.Work; w != nil {
			m.samples.Add(float64(w.Samples))
			m.bytes.Add(float64(w.Bytes))
			m.kept.Add(float64(w.Kept))
		}
		if d.Executor != plan.OnPrometheus {
			taken++
			return
		}
		other++
		if d.Own {
			m.stayed.WithLabelValues(d.Reason).Inc()
		}
	})
	switch {
	case taken == 0 && other == 0:
		m.queries.WithLabelValues("idle").Inc()
	case taken == 0:
		m.queries.WithLabelValues("none").Inc()
	case other == 0:
		m.queries.WithLabelValues("whole").Inc()
	default:
		m.queries.WithLabelValues("part").Inc()
	}
}
