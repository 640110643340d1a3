package device

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
)

// metrics say what the GPUs did.
type metrics struct {
	jobs    *prometheus.CounterVec
	faults  *prometheus.CounterVec
	usable  *prometheus.GaugeVec
	samples prometheus.Counter
	bytes   prometheus.Counter
	copied  prometheus.Counter
	seconds *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		jobs: f.NewCounterVec(prometheus.CounterOpts{
			Name: "promwarp_gpu_jobs_total",
			Help: "Windows, with what aggregates them, and resample requests that a GPU evaluated.",
		}, []string{"gpu"}),
		faults: f.NewCounterVec(prometheus.CounterOpts{
			Name: "promwarp_gpu_faults_total",
			Help: "Failures of a GPU, by CUDA's name of the error.",
		}, []string{"gpu", "reason"}),
		usable: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "promwarp_gpu_usable",
			Help: "Whether a GPU is open and did not fail when it was last used.",
		}, []string{"gpu"}),
		samples: f.NewCounter(prometheus.CounterOpts{
			Name: "promwarp_gpu_samples_decoded_total",
			Help: "Samples decoded by GPUs.",
		}),
		bytes: f.NewCounter(prometheus.CounterOpts{
			Name: "promwarp_gpu_chunk_bytes_total",
			Help: "Bytes of encoded chunks decoded by GPUs.",
		}),
		copied: f.NewCounter(prometheus.CounterOpts{
			Name: "promwarp_gpu_bytes_copied_total",
			Help: "Bytes copied to GPUs: encoded chunks, and where they are.",
		}),
		seconds: f.NewCounterVec(prometheus.CounterOpts{
			Name: "promwarp_gpu_seconds_total",
			Help: "Time that windows took on GPUs, by stage: wait, for others to be done; job, from then to the values. Of a job, the stages prepare, copy, decode, window, fold and result run beside each other.",
		}, []string{"stage"}),
	}
}

// count records what a device computed.
func (m *metrics) count(d *Device, work *plan.Work, s *pipeline.Stages) {
	m.jobs.WithLabelValues(d.label()).Inc()
	m.samples.Add(float64(work.Samples))
	m.bytes.Add(float64(work.Bytes))
	m.copied.Add(float64(s.CopiedBytes))
	for stage, took := range map[string]time.Duration{
		"wait": s.Waited, "job": s.Total - s.Waited, "prepare": s.Prepare,
		"copy": s.Copy, "decode": s.Decode, "window": s.Window, "fold": s.Reduce, "result": s.Result,
	} {
		m.seconds.WithLabelValues(stage).Add(took.Seconds())
	}
}
