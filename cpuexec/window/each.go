package window

import (
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions that look at each window's samples anew, and at few of them.

// Present is the function below absent_over_time: 1 where a window has a sample. What
// becomes of the series' names does not matter there.
var Present = defineUnnamed(each(plan.WindowFunc{Name: "absent_over_time", KeepsName: true}, Latest, ends("Present"), func(*Window) (float64, bool) { return 1, true }))

var (
	_ = define(each(plan.WindowFunc{Name: "count_over_time"}, Everything, ends("Number"), func(w *Window) (float64, bool) { return float64(len(w.Values)), true }))
	_ = define(each(plan.WindowFunc{Name: "present_over_time"}, Latest, ends("Present"), func(*Window) (float64, bool) { return 1, true }))
	_ = define(each(plan.WindowFunc{Name: "first_over_time", KeepsName: true}, Earliest, ends("Oldest"), func(w *Window) (float64, bool) { return w.Values[0], true }))
	_ = define(each(plan.WindowFunc{Name: "last_over_time", KeepsName: true}, Latest, ends("Newest"), func(w *Window) (float64, bool) { return w.Values[len(w.Values)-1], true }))
	_ = define(each(plan.WindowFunc{Name: "ts_of_first_over_time"}, Everything, ends("OldestTime"), func(w *Window) (float64, bool) { return w.secondsAt(0), true }))
	// Prometheus's engine takes the later of the newest float's time and the newest histogram's, 0 where
	// there is none, and so never answers a time before 1970.
	_ = define(each(plan.WindowFunc{Name: "ts_of_last_over_time"}, Everything, ends("NewestTime"), func(w *Window) (float64, bool) {
		return max(0, w.secondsAt(len(w.Times)-1)), true
	}))
	_ = define(each(plan.WindowFunc{Name: "ts_of_min_over_time"}, Everything, abi.Policy{Kernel: abi.ByStatistic, Name: "TimeOfMin"},
		func(w *Window) (float64, bool) { return w.timeOf(-1), true }))
	_ = define(each(plan.WindowFunc{Name: "ts_of_max_over_time"}, Everything, abi.Policy{Kernel: abi.ByStatistic, Name: "TimeOfMax"},
		func(w *Window) (float64, bool) { return w.timeOf(1), true }))
)

// each is the definition of a function that has a plain form alone.
func each(f plan.WindowFunc, sees Sees, gpu abi.Policy, plain func(w *Window) (float64, bool)) *Function {
	return &Function{WindowFunc: f, Plain: plain, Sees: sees, GPU: gpu}
}

// ends is the policy of a function of a window's first or last sample.
func ends(name string) abi.Policy { return abi.Policy{Kernel: abi.ByEnds, Name: name} }

// secondsAt is the time of a sample in seconds.
func (w *Window) secondsAt(i int) float64 { return float64(w.Times[i]) / 1000 }
