package gpuexec

import (
	"fmt"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// Unsuited is the error of a leaf that the executor declines.
type Unsuited = pipeline.Unsuited

const reasonVaries = "a parameter that is not a constant is not on the GPU yet"

// Suits says why a node, with all below it, cannot be evaluated on the GPU, or
// nothing.
func Suits(n plan.Node) string {
	a, ok := n.(*plan.Aggregate)
	if !ok {
		return suitsWindow(n)
	}
	switch f := aggregate.Of(a.Func); {
	case f.NoGPU != "":
		return fmt.Sprintf("the operator %s is not on the GPU: %s", f.Name, f.NoGPU)
	case a.ParamNode != nil:
		return reasonVaries
	case f.Outside != "" && !f.Ordinary(a.Param):
		return f.Outside + " is not on the GPU"
	}
	n = a.Input
	for {
		m, ok := n.(*plan.Map)
		if !ok {
			return suitsWindow(n)
		}
		if _, ok := mapOf(m); !ok {
			return fmt.Sprintf("the function %s is not on the GPU: %s", m.Func.Name, vector.Of(m.Func).NoGPU)
		}
		n = m.Input
	}
}

func suitsWindow(n plan.Node) string {
	w, ok := n.(*plan.Window)
	if !ok {
		return "only windows, and what aggregates them, are on the GPU yet"
	}
	if w.Extension.Modifier != plan.Unmodified {
		return "anchored and smoothed selectors are not on the GPU yet"
	}
	switch f := window.Of(w.Func); {
	case f.NoGPU != "":
		return fmt.Sprintf("the function %s is not on the GPU: %s", f.Name, f.NoGPU)
	case len(w.Params) > 0:
		return reasonVaries
	case f.Ordinary != nil && !f.Ordinary(w.Param, w.Trend):
		return f.Outside + " is not on the GPU"
	}
	return ""
}

// steps are the windows of a leaf; how many a thread computes is left open.
func steps(l *cpuexec.Leaf) launch.Steps {
	s := launch.Steps{Start: l.Window.Scan.Times(l.Grid.Start), Width: l.Window.Width, Count: uint32(l.Grid.Steps)}
	s.Interval = l.Window.Scan.Times(l.Grid.At(1)) - s.Start
	return s
}

// sortedMost is the largest number of samples in a window, on average, for which
// sorting them is worth it. A test raises it.
var sortedMost float64 = abi.OrderMost

// suitsData says why a leaf's data cannot be read on the GPU, or nothing.
func suitsData(l *cpuexec.Leaf) string {
	switch {
	case l.Starts:
		return "samples with start timestamps are not on the GPU yet"
	case window.Of(l.Window.Func).GPU.Kernel == abi.ByOrder && inWindow(l) > sortedMost:
		return fmt.Sprintf("windows of more than %d samples are not sorted on the GPU yet", abi.OrderMost)
	case window.Of(l.Window.Func).NotBefore1970 && steps(l).Start < l.Window.Width && startsBefore1970(l):
		return "the newest time of samples from before 1970 is not on the GPU"
	case l.Grid.Steps > 1<<24 || l.Selection.NumSeries() > 1<<28:
		return "it has too many series or steps"
	}
	return ""
}

// startsBefore1970 reports whether there are samples from before 1970.
func startsBefore1970(l *cpuexec.Leaf) bool {
	for i := range l.Selection.NumSeries() {
		if cs := l.Selection.Chunks(i); len(cs) > 0 && cs[0].MinT < 0 {
			return true
		}
	}
	return false
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
