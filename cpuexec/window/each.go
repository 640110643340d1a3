package window

import (
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines the functions that look at each window's samples anew, and at few of them.

// Present is the function below absent_over_time: 1 where a window has a sample. What
// becomes of the series' names does not matter there.
var Present = defineUnnamed(&Function{
	WindowFunc: plan.WindowFunc{Name: "absent_over_time", KeepsName: true},
	Plain:      func(*Window) (float64, bool) { return 1, true },
	GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "Present"},
})

var (
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "count_over_time"},
		Plain:      func(w *Window) (float64, bool) { return float64(len(w.Values)), true },
		GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "Number"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "present_over_time"},
		Plain:      func(*Window) (float64, bool) { return 1, true },
		GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "Present"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "first_over_time", KeepsName: true},
		Plain:      func(w *Window) (float64, bool) { return w.Values[0], true },
		GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "Oldest"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "last_over_time", KeepsName: true},
		Plain:      func(w *Window) (float64, bool) { return w.Values[len(w.Values)-1], true },
		GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "Newest"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "ts_of_first_over_time"},
		Plain:      func(w *Window) (float64, bool) { return w.secondsAt(0), true },
		GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "OldestTime"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "ts_of_last_over_time"},
		Plain:      func(w *Window) (float64, bool) { return w.secondsAt(len(w.Times) - 1), true },
		GPU:        abi.Policy{Kernel: abi.ByEnds, Name: "NewestTime"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "ts_of_min_over_time"},
		Plain: func(w *Window) (float64, bool) {
			return w.timeOf(func(v, least float64) bool { return v <= least }), true
		},
		GPU: abi.Policy{Kernel: abi.ByStatistic, Name: "TimeOfMin"},
	})
	_ = define(&Function{
		WindowFunc: plan.WindowFunc{Name: "ts_of_max_over_time"},
		Plain: func(w *Window) (float64, bool) {
			return w.timeOf(func(v, most float64) bool { return v >= most }), true
		},
		GPU: abi.Policy{Kernel: abi.ByStatistic, Name: "TimeOfMax"},
	})
)

// secondsAt is the time of a sample in seconds.
func (w *Window) secondsAt(i int) float64 { return float64(w.Times[i]) / 1000 }
