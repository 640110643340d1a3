package window

import (
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions that look at each window's samples anew, and at few of them.

// Present is the function below absent_over_time: 1 where a window has a sample. What
// becomes of the series' names does not matter there.
var Present = defineUnnamed(each("absent_over_time", abi.ByEnds, "Present", func(*Window) (float64, bool) { return 1, true }).keepsName().sees(Latest))

var (
	_ = define(each("count_over_time", abi.ByEnds, "Number", func(w *Window) (float64, bool) { return float64(len(w.Values)), true }))
	_ = define(each("present_over_time", abi.ByEnds, "Present", func(*Window) (float64, bool) { return 1, true }).sees(Latest))
	_ = define(each("first_over_time", abi.ByEnds, "Oldest", func(w *Window) (float64, bool) { return w.Values[0], true }).keepsName().sees(Earliest))
	_ = define(each("last_over_time", abi.ByEnds, "Newest", func(w *Window) (float64, bool) { return w.Values[len(w.Values)-1], true }).keepsName().sees(Latest))
	_ = define(each("ts_of_first_over_time", abi.ByEnds, "OldestTime", func(w *Window) (float64, bool) { return w.secondsAt(0), true }))
	// Prometheus's engine takes the later of the newest float's time and the newest histogram's, 0 where
	// there is none, and so never answers a time before 1970.
	_ = define(each("ts_of_last_over_time", abi.ByEnds, "NewestTime", func(w *Window) (float64, bool) {
		return max(0, w.secondsAt(len(w.Times)-1)), true
	}).notBefore1970())
	_ = define(each("ts_of_min_over_time", abi.ByStatistic, "TimeOfMin", func(w *Window) (float64, bool) { return w.timeOf(-1), true }))
	_ = define(each("ts_of_max_over_time", abi.ByStatistic, "TimeOfMax", func(w *Window) (float64, bool) { return w.timeOf(1), true }))
)

// each is the definition of a function that has a plain form alone.
func each(name string, kernel abi.Kernel, policy string, plain func(w *Window) (float64, bool)) *Function {
	return &Function{WindowFunc: plan.WindowFunc{Name: name}, Plain: plain, GPU: abi.Policy{Kernel: kernel, Name: policy}}
}

func (f *Function) keepsName() *Function {
	f.KeepsName = true
	return f
}

func (f *Function) notBefore1970() *Function {
	f.NotBefore1970 = true
	return f
}

func (f *Function) sees(s Sees) *Function {
	f.Sees = s
	return f
}

// secondsAt is the time of a sample in seconds.
func (w *Window) secondsAt(i int) float64 { return float64(w.Times[i]) / 1000 }
