package resample

import (
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// Explanation says how a request is computed, and what that took.
type Explanation struct {
	Executor string   `json:"executor"`
	Reason   string   `json:"reason"`
	Buckets  int      `json:"buckets"`
	First    int64    `json:"first"`          // when the first window begins, ms
	Last     int64    `json:"last"`           // when the last window ends, ms
	Every    string   `json:"every"`          // length of buckets
	Period   string   `json:"period"`         // length of windows
	Reads    [2]int64 `json:"reads"`          // times of samples, from and to, ms
	Passes   []Pass   `json:"passes"`         // over the samples of a series
	Note     string   `json:"note,omitempty"` // on the aggregate of aggregates
	Work     *Work    `json:"work,omitempty"`
}

// Pass is what is made of the samples of a series, or of the differences between them, at once.
type Pass struct {
	Of         string   `json:"of"`
	Aggregates []string `json:"aggregates"`
	Parts      []string `json:"parts"` // of the states, which the aggregates share
	Note       string   `json:"note,omitempty"`
}

// Explain says how a plan that was not run yet is computed.
func (e *Executor) Explain(p *Plan) *Explanation {
	x := p.Explain()
	reason := unsuited(e.o.Accelerator, p)
	switch {
	case p.Executor == ChooseCores:
		x.Executor, x.Reason = "cpu", asked
	case reason != "":
		x.Executor, x.Reason = "cpu", reason
	case p.Executor == ChooseGPU:
		x.Executor, x.Reason = "gpu", asked
	}
	return x
}

// asked is why a request is computed by whom it names.
const asked = "the request asks for it"

// Explain says how the request was computed, and what that took.
func (r *Result) Explain() *Explanation {
	x := r.Plan.Explain()
	x.Executor, x.Reason, x.Work = r.Work.Executor, r.Work.Reason, &r.Work
	return x
}

// Explain says how the plan is computed.
func (p *Plan) Explain() *Explanation {
	n := p.Grid.N()
	x := &Explanation{
		Executor: "auto", Reason: "a GPU or cores, whichever is expected to be faster over the samples", Buckets: n,
		First: p.Grid.Opens(0), Last: p.Grid.Closes(int32(n - 1)), Every: p.Layout.Every.String(), Period: p.Layout.Every.String(),
		Reads: [2]int64{p.from, p.to},
	}
	if p.Layout.Period.N > 0 {
		x.Period = p.Layout.Period.String()
	}
	if p.Reaggregate != nil {
		x.Note = p.Reaggregate.Note
	}
	for i := range p.Sources {
		s := &p.Sources[i]
		pass := Pass{Of: "samples", Parts: aggregate.PartNames(s.Contents.Parts)}
		if s.Differences {
			pass.Of = "differences"
		}
		for _, a := range s.Outputs {
			pass.Aggregates = append(pass.Aggregates, p.Aggregates[a].Text)
			pass.Note = p.Aggregates[a].Note // of a pass of its own
		}
		x.Passes = append(x.Passes, pass)
	}
	return x
}

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

// counters gather the Work of a goroutine, or of all.
type counters struct {
	decode.Stats
	series, runs             int64
	decode, aggregate, merge time.Duration
	histograms               bool    // some were left out
	stages                   []Stage // of an accelerator
}

// add adds what a goroutine did, and what it read.
func (w *counters) add(o *counters, read *decode.Stats) {
	w.Stats.Add(*read)
	w.series += o.series
	w.runs += o.runs
	w.decode += o.decode
	w.aggregate += o.aggregate
	w.histograms = w.histograms || o.histograms
}

var errHistograms = errors.New("native histograms have no aggregates here; their samples are left out")

// explain notes what the request took.
func (r *run) explain(fetch, wait, compute time.Duration) {
	if r.work.histograms {
		r.result.Warnings.Add(errHistograms)
	}
	stage := func(name string, took time.Duration) Stage { return Stage{name, took.Microseconds()} }
	r.result.Work = Work{
		Executor: r.result.Work.Executor, Reason: r.result.Work.Reason,
		Buckets: r.Grid.N(), Groups: len(r.result.Series), Values: r.result.Values(),
		Series: r.work.series, Chunks: int64(r.work.Chunks), Samples: r.work.Samples + r.work.Retained, Bytes: r.work.Bytes, Runs: r.work.runs,
		Stages: []Stage{stage("fetch", fetch), stage("wait", wait), stage("compute", compute)},
	}
	if r.work.stages == nil {
		r.work.stages = []Stage{stage("decode", r.work.decode), stage("aggregate", r.work.aggregate), stage("merge", r.work.merge)}
	}
	r.result.Work.Stages = append(r.result.Work.Stages, r.work.stages...)
}
