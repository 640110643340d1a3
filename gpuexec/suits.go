package gpuexec

import (
	"fmt"
	"slices"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// steps are the windows of a leaf; how many a thread computes is left open.
func steps(l *cpuexec.Leaf) launch.Steps {
	s := launch.Steps{Start: l.Window.Scan.Times(l.Grid.Start), Width: l.Window.Width, Count: uint32(l.Grid.Steps)}
	s.Interval = l.Window.Scan.Times(l.Grid.At(1)) - s.Start
	return s
}

// selectMost is the largest number of samples in a window from which on window_select is not worth it.
const selectMost = 2048

// sortedMost and selectedMost are the largest numbers of samples in a window, on average, for which sorting
// them and looking for ranks among them is worth it. Tests raise them.
var sortedMost, selectedMost float64 = abi.OrderMost, selectMost

// recentMost is the number of samples in two neighbouring windows, on average, from which on window_recent has no
// room for them. A test raises it.
var recentMost float64 = abi.RecentSamples - 2

// suitsQuery says why a leaf's data cannot be read on the GPU, or nothing.
func suitsQuery(l *cpuexec.Leaf) string {
	switch f := window.Of(l.Window.Func).GPU; {
	case l.Starts:
		return "samples with start timestamps are not on the GPU yet"
	case f.Kernel == abi.ByOrder && f.Second && inWindow(l) > sortedMost:
		return fmt.Sprintf("windows of more than %d samples are not sorted on the GPU yet", abi.OrderMost)
	case f.Kernel == abi.ByOrder && inWindow(l) > selectedMost:
		return fmt.Sprintf("quantiles of more than %d samples are left to the cores", selectMost)
	case l.Grid.Steps > 1<<24 || l.Selection.NumSeries() > 1<<28:
		return "it has too many series or steps"
	}
	return ""
}

// inWindow is the number of samples that a window of a leaf holds, by the average
// distance of samples in some of its series.
func inWindow(l *cpuexec.Leaf) (n float64) {
	for cs := range layout.Some(l.Selection) {
		samples := 0
		for k := range cs {
			samples += int(cs[k].Samples)
		}
		if samples > 1 {
			n = max(n, float64(l.Window.Width)*float64(samples-1)/float64(cs[len(cs)-1].MaxT-cs[0].MinT))
		}
	}
	return n
}

// regular reports whether samples are at regular times in the series that layout.Some takes of a leaf's, as far as the
// ends of their chunks tell.
func regular(l *cpuexec.Leaf) bool {
	for cs := range layout.Some(l.Selection) {
		for k := range cs {
			if n := int64(cs[k].Samples) - 1; n > 0 && (cs[k].MaxT-cs[k].MinT)%n != 0 {
				return false
			}
		}
	}
	return true
}

// merges reports whether the samples of several series go into one bucket.
func merges(t *resample.Task) bool { return t.Reaggregate == nil && t.Groups < len(t.GroupOf) }

// ordered reports whether an aggregate is of the order of a run's values, which kernels sort.
func ordered(a aggregate.Aggregate) bool { return a.GPU.Kernel == abi.ByRunOrder }

// quantileOf is the quantile that kernels are told of an aggregate that is ordered: negative for the
// number of different values.
func quantileOf(a aggregate.Aggregate) float64 {
	if a.GPU.Second {
		return -1
	}
	return a.Q
}

// suitsRequest says why the data of a task cannot be computed on a GPU, or nothing.
func suitsRequest(t *resample.Task) string {
	switch {
	case !t.Selection.OnlyFloats():
		return "native histograms are not on the GPU"
	case t.Selection.NumSeries() > 1<<28:
		return "it has too many series"
	}
	most := abi.LongestRun * int64(len(t.GroupOf)) * int64(t.Grid.N())
	if !merges(t) && slices.ContainsFunc(t.Aggregates, ordered) && t.Selection.NumSamples() > most {
		return fmt.Sprintf("runs of more than %d samples are not sorted on the GPU", abi.LongestRun)
	}
	return ""
}
