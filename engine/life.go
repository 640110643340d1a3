package engine

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/plan"
)

// life follows queries of all executors from their beginning to their end: it has them listed
// while they run, and the metrics that Prometheus's engine has of itself.
type life struct {
	tracker       promql.QueryTracker // nil for none
	running       prometheus.Gauge
	samples, read prometheus.Counter
	durations     []prometheus.ObserverVec
}

// timed are the timers of a query whose durations are metrics.
var timed = []struct {
	slice string
	stats.QueryTiming
}{
	{"queue_time", stats.ExecQueueTime}, {"prepare_time", stats.QueryPreparationTime},
	{"inner_eval", stats.InnerEvalTime}, {"result_sort", stats.ResultSortTime},
}

func newLife(reg prometheus.Registerer, tracker promql.QueryTracker) *life {
	f := instrument.With(reg)
	most := f.Gauge("prometheus_engine_queries_concurrent_max", "The max number of concurrent queries.")
	if most.Set(-1); tracker != nil {
		most.Set(float64(tracker.GetMaxConcurrent()))
	}
	f.Gauge("prometheus_engine_query_log_enabled", "State of the query log.")
	f.Counter("prometheus_engine_query_log_failures_total", "The number of query log failures.")
	slice := []string{"slice"}
	return &life{
		tracker: tracker,
		running: f.Gauge("prometheus_engine_queries", "The current number of queries being executed or waiting."),
		samples: f.Counter("prometheus_engine_query_samples_total", "The total number of samples loaded by all queries (full window per step for range-vector)."),
		read:    f.Counter("prometheus_engine_query_samples_read_total", "The total number of samples read by all queries (only new points per step for range-vector)."),
		durations: []prometheus.ObserverVec{
			f.NewSummaryVec(prometheus.SummaryOpts{
				Name: "prometheus_engine_query_duration_seconds", Help: "Query timings",
				Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
			}, slice),
			f.NewHistogramVec(prometheus.HistogramOpts{
				Name: "prometheus_engine_query_duration_histogram_seconds", Help: "The duration of various parts of PromQL query execution.",
				Buckets: []float64{.01, .1, 1, 10}, NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
				NativeHistogramMinResetDuration: time.Hour,
			}, slice),
		},
	}
}

// of runs a query.
func (l *life) of(ctx context.Context, q promql.Query, run func(context.Context) *promql.Result) *promql.Result {
	l.running.Inc()
	defer l.running.Dec()
	s := q.Stats()
	defer func() {
		l.samples.Add(float64(s.Samples.TotalSamples))
		l.read.Add(float64(s.Samples.SamplesRead))
		for _, t := range timed {
			took := s.Timers.GetTimer(t.QueryTiming).Duration()
			if took == 0 {
				continue
			}
			for _, d := range l.durations {
				d.WithLabelValues(t.slice).Observe(took)
			}
		}
	}()
	queue, _ := s.Timers.GetSpanTimer(ctx, stats.ExecQueueTime)
	unlist, err := l.list(ctx, q.String())
	queue.Finish()
	if err != nil {
		return &promql.Result{Err: err}
	}
	defer unlist()
	return run(ctx)
}

// list has a query listed until unlist is called.
func (l *life) list(ctx context.Context, query string) (unlist func(), err error) {
	if l.tracker == nil {
		return func() {}, nil
	}
	slot, err := l.tracker.Insert(ctx, query)
	return func() { l.tracker.Delete(slot) }, err
}

// metrics count what ran where, so that nothing falls back silently.
type metrics struct {
	queries  *prometheus.CounterVec
	nodes    *prometheus.CounterVec
	declined *prometheus.CounterVec
	stayed   *prometheus.CounterVec
	samples  prometheus.Counter
	bytes    prometheus.Counter
	kept     prometheus.Counter
	digested prometheus.Counter
	lost     prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, cpu *cpuexec.Executor) *metrics {
	f := instrument.With(reg)
	f.GaugeOf("promwarp_cpu_decoded_bytes", "Memory that the decoded columns of hot series take, a part of cache.host-bytes.", func() float64 { return float64(cpu.Columns().SizeBytes()) })
	return &metrics{
		queries:  f.Counters("promwarp_queries_total", "Queries by whether executors evaluated them: whole, none, or idle where no samples are read.", "accelerated"),
		nodes:    f.Counters("promwarp_plan_nodes_total", "Expressions of queries by the executor that evaluated them and their kind.", "executor", "kind"),
		declined: f.Counters("promwarp_parts_declined_total", "Queries that executors declined after seeing their data, by reason.", "reason"),
		stayed:   f.Counters("promwarp_parts_left_total", "Queries left to Prometheus's engine, by reason.", "reason"),
		samples:  f.Counter("promwarp_cpu_samples_decoded_total", "Samples decoded by the CPU executor."),
		bytes:    f.Counter("promwarp_cpu_chunk_bytes_total", "Bytes of encoded chunks decoded by the CPU executor."),
		kept:     f.Counter("promwarp_cpu_samples_kept_total", "Samples that the CPU executor took from columns decoded for earlier queries."),
		digested: f.Counter("promwarp_cpu_chunks_digested_total", "Chunks within long windows that the CPU executor answered from digests, without their samples."),
		lost:     f.Counter("promwarp_cpu_samples_lost_total", "Samples that the CPU executor decoded for queries that it then declined."),
	}
}

// count records a query that has ended.
func (m *metrics) count(q *query) {
	how := "none"
	switch {
	case q.plan == nil:
	case q.plan.Root.Idle:
		how = "idle"
	case q.plan.Node != nil:
		how = "whole"
	}
	m.queries.WithLabelValues(how).Inc()
	if q.plan == nil {
		return
	}
	q.plan.Root.Walk(func(d *plan.Decision) {
		if d.Idle {
			return
		}
		m.nodes.WithLabelValues(d.Executor, d.Kind).Inc()
		if w := d.Work; w != nil {
			m.samples.Add(float64(w.Samples))
			m.bytes.Add(float64(w.Bytes))
			m.kept.Add(float64(w.Kept))
			m.digested.Add(float64(w.Digested))
		}
		if d.Own {
			m.stayed.WithLabelValues(d.Reason).Inc()
		}
	})
}
