package resample

import (
	"errors"
	"sync/atomic"
	"time"
)

// Work is what a request took. Times are in microseconds; those of stages that run on several
// cores are of all cores together.
type Work struct {
	Executor string  `json:"executor"`
	Reason   string  `json:"reason"`
	Buckets  int     `json:"buckets"`
	Series   int64   `json:"series"`
	Groups   int     `json:"groups"`
	Chunks   int64   `json:"chunks"`
	Samples  int64   `json:"samples"`
	Bytes    int64   `json:"bytes"` // encoded
	Runs     int64   `json:"runs"`
	Values   int64   `json:"values"`
	Stages   []Stage `json:"stages"`
}

// Stage is a stage of the computation.
type Stage struct {
	Name   string `json:"name"`
	Micros int64  `json:"micros"`
}

// counters gather the Work of several goroutines.
type counters struct {
	series, chunks, samples, bytes, runs atomic.Int64
	decode, aggregate, merge             atomic.Int64 // ns
	histograms                           atomic.Bool  // some were left out
	stages                               []Stage      // of an accelerator
}

var errHistograms = errors.New("native histograms have no aggregates here; their samples are left out")

// explain notes what the request took.
func (r *run) explain(fetch, wait, compute time.Duration) {
	if r.work.histograms.Load() {
		r.result.Warnings.Add(errHistograms)
	}
	stage := func(name string, ns int64) Stage { return Stage{name, ns / 1000} }
	r.result.Work = Work{
		Executor: r.result.Work.Executor, Reason: r.result.Work.Reason,
		Buckets: r.Grid.N(), Groups: len(r.result.Series), Values: r.result.Values(),
		Series: r.work.series.Load(), Chunks: r.work.chunks.Load(), Samples: r.work.samples.Load(), Bytes: r.work.bytes.Load(), Runs: r.work.runs.Load(),
		Stages: []Stage{
			stage("fetch", int64(fetch)), stage("wait", int64(wait)), stage("compute", int64(compute)),
		},
	}
	if r.work.stages == nil {
		r.work.stages = []Stage{stage("decode", r.work.decode.Load()), stage("aggregate", r.work.aggregate.Load()), stage("merge", r.work.merge.Load())}
	}
	r.result.Work.Stages = append(r.result.Work.Stages, r.work.stages...)
	ran := *r.Plan // as it was computed, for Explain
	ran.ran = &r.result.Work
	r.result.Plan = &ran
}
