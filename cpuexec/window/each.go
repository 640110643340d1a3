package window

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions that look at few of each window's samples, or at none.

// Present is the function below absent_over_time: 1 where a window has a sample. What
// becomes of the series' names does not matter there.
var Present = defineUnnamed(presence(plan.WindowFunc{Name: "absent_over_time", KeepsName: true}))

var (
	_ = define(ofEnds(plan.WindowFunc{Name: "count_over_time"}, Everything, "Number", func(_ *series, lo, hi int32) float64 { return float64(hi - lo) },
		func(w *Window) (float64, bool) { return float64(len(w.Values)), true }))
	_ = define(presence(plan.WindowFunc{Name: "present_over_time"}))
	_ = define(ofEnds(plan.WindowFunc{Name: "first_over_time", KeepsName: true}, Earliest, "Oldest", func(s *series, lo, _ int32) float64 { return s.in.At(lo) },
		func(w *Window) (float64, bool) { return w.Values[0], true }))
	_ = define(ofEnds(plan.WindowFunc{Name: "last_over_time", KeepsName: true}, Latest, "Newest", func(s *series, _, hi int32) float64 { return s.in.At(hi - 1) },
		func(w *Window) (float64, bool) { return w.Values[len(w.Values)-1], true }))
	_ = define(ofEnds(plan.WindowFunc{Name: "ts_of_first_over_time"}, Everything, "OldestTime", func(s *series, lo, _ int32) float64 { return s.secondsAt(lo) },
		func(w *Window) (float64, bool) { return w.secondsAt(0), true }))
	// Prometheus's engine takes the later of the newest float's time and the newest histogram's, 0 where
	// there is none, and so never answers a time before 1970.
	_ = define(ofEnds(plan.WindowFunc{Name: "ts_of_last_over_time"}, Everything, "NewestTime", func(s *series, _, hi int32) float64 { return max(0, s.secondsAt(hi-1)) },
		func(w *Window) (float64, bool) { return max(0, w.secondsAt(len(w.Times)-1)), true }))
	_ = define(timeOf("ts_of_min_over_time", "TimeOfMin", -1))
	_ = define(timeOf("ts_of_max_over_time", "TimeOfMax", 1))
)

// ofEnds is the definition of a function of where windows begin and end, of their first sample or of
// their last, which value computes of the samples from lo to hi, the end excluded.
func ofEnds(f plan.WindowFunc, sees Sees, policy string, value func(s *series, lo, hi int32) float64, plain func(w *Window) (float64, bool)) *Function {
	return &Function{
		WindowFunc: f, Plain: plain, Sees: sees, GPU: abi.Policy{Kernel: abi.ByEnds, Name: policy}, Reads: Ends,
		Fast: func(s *Evaluator) (int, bool) {
			s.bounds.Each(s.out, func(_ int, lo, hi int32) float64 { return value(&s.series, lo, hi) })
			return s.fr.Counts.Points, true
		},
	}
}

// timeOf is the definition of a function that finds when a window had its extreme.
func timeOf(name, policy string, sign float64) *Function {
	return &Function{
		WindowFunc: plan.WindowFunc{Name: name}, GPU: abi.Policy{Kernel: abi.ByStatistic, Name: policy},
		Plain: func(w *Window) (float64, bool) { return w.timeOf(sign), true },
	}
}

// presence is the definition of a function that is 1 where a window has a sample.
func presence(f plan.WindowFunc) *Function {
	p := ofEnds(f, Latest, "Present", nil, func(*Window) (float64, bool) { return 1, true })
	p.Reads, p.Fast = Times, func(s *Evaluator) (int, bool) {
		copy(s.out.Present, s.fr.Any)
		dense.Fill(s.out.Values, 1)
		return s.fr.Counts.Points, true
	}
	return p
}

// secondsAt is the time of a sample in seconds.
func (w *Window) secondsAt(i int) float64 { return float64(w.Times[i]) / 1000 }

func (s *series) secondsAt(i int32) float64 { return float64(s.fr.At(int(i))) / 1000 }
