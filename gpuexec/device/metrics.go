package device

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/instrument"
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
	f := instrument.With(reg)
	return &metrics{
		jobs:    f.Counters("promwarp_gpu_jobs_total", "Windows, with what aggregates them, and resample requests that a GPU evaluated.", "gpu"),
		faults:  f.Counters("promwarp_gpu_faults_total", "Failures of a GPU, by CUDA's name of the error.", "gpu", "reason"),
		usable:  f.Gauges("promwarp_gpu_usable", "Whether a GPU is open and did not fail when it was last used.", "gpu"),
		samples: f.Counter("promwarp_gpu_samples_decoded_total", "Samples decoded by GPUs."),
		bytes:   f.Counter("promwarp_gpu_chunk_bytes_total", "Bytes of encoded chunks decoded by GPUs."),
		copied:  f.Counter("promwarp_gpu_bytes_copied_total", "Bytes copied to GPUs: encoded chunks, and where they are."),
		seconds: f.Counters("promwarp_gpu_seconds_total", "Time that windows took on GPUs, by stage: wait, for others to be done; job, from then to the values. Of a job, the stages prepare, copy, decode, window, fold and result run beside each other.", "stage"),
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
