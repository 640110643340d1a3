package gpuexec

import (
	"fmt"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/kernels/abi"
)

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
