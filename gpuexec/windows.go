package gpuexec

import (
	"slices"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
)

// function is a window function as kernels compute it.
type function struct{ *window.Function }

// counter reports whether resets are made up for.
func (f function) counter() bool { return f.GPU.Name != "Delta" }

// divisor is what the results of f are divided by, or 0 for nothing.
func (f function) divisor(width int64) float64 {
	if f.GPU.Name != "Rate" {
		return 0
	}
	return (time.Duration(width) * time.Millisecond).Seconds()
}

// panes cuts the windows of f into panes, if it is one for which that is worth it.
func (f function) panes(s launch.Steps) *launch.Panes {
	if !slices.Contains(f.GPU.Kernel.Strategies(), abi.Panes) {
		return nil
	}
	p, ok := launch.PanesOf(s)
	if !ok {
		return nil
	}
	return &p
}

// window puts the window function over a batch on a stream.
func (j *job) window(q launch.Queue, d *pipeline.Batch, steps launch.Steps) error {
	if j.fuses {
		p := launch.FusedParametersOf(&d.Batch, steps, j.drops(), j.Report(d.Number), d.Out)
		return q.Chunks(j.f.fusedKernel(p, j.l.Window), &d.Batch)
	}
	if j.panes != nil {
		return q.WindowPanes(&d.Batch, steps, j.panes, abi.Operator(j.f.GPU.Number()), d.At(d.Output.Suffix), d.At(d.Output.Prefix), d.Out)
	}
	p := launch.WindowParametersOf(&d.Batch, steps, d.Out)
	if j.f.GPU.Kernel == abi.ByOrder {
		k := &launch.WindowOrder{WindowParameters: p, Distance: j.f.GPU.Name == "Distance", Quantile: j.l.Window.Param, Fault: j.At(j.Fault)}
		return q.Window(k, &d.Batch, steps, abi.OrderBlock)
	}
	return q.Window(j.f.windowKernel(p, j.l), &d.Batch, steps, abi.WindowBlock)
}

// windowKernel is the kernel of f over stored samples, unless that is of panes or by order.
func (f function) windowKernel(p launch.WindowParameters, l *cpuexec.Leaf) launch.Launcher {
	w := l.Window
	switch f.GPU.Kernel {
	case abi.ByRate:
		return &launch.WindowRate{WindowParameters: p, Counter: f.counter(), Seconds: f.divisor(w.Width)}
	case abi.ByPairs:
		return &launch.WindowPairs{WindowParameters: p, Kind: abi.Pairs(f.GPU.Number())}
	case abi.ByStatistic:
		return &launch.WindowStatistic{
			WindowParameters: p, Kind: abi.Statistic(f.GPU.Number()), Param: w.Param, Trend: w.Trend, Step: l.Grid.Start, StepInterval: l.Grid.Interval,
		}
	case abi.ByOperator:
		return &launch.WindowOver{WindowParameters: p, Op: abi.Operator(f.GPU.Number())}
	default:
		return &launch.WindowEnds{WindowParameters: p, Kind: abi.Ends(f.GPU.Number())}
	}
}

// drops reports whether stale markers are left out: only the instant selector reads them.
func (j *job) drops() bool { return !j.l.Window.Func.Instant }
