package gpuexec

import (
	"slices"
	"time"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// function is a window function as kernels compute it.
type function struct{ *window.Function }

// divisor is what the results of f are divided by, or 0 for nothing.
func (f function) divisor(width int64) float64 {
	if !f.PerSecond {
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
func (j *queryJob) window(q launch.Queue, d *pipeline.Batch, steps launch.Steps) error {
	if j.fuses {
		k, more := j.f.kernel("fused_", j.l)
		return q.Fused(k, &d.Batch, steps, more...)
	}
	if j.panes != nil {
		return q.WindowPanes(&d.Batch, steps, j.panes, j.f.GPU.Number(), d.At(d.Output.Suffix), d.At(d.Output.Prefix))
	}
	if j.f.GPU.Kernel == abi.ByOrder {
		return q.Window("window_order", &d.Batch, steps, j.f.GPU.Second, j.l.Window.Param, d.Fault)
	}
	k, more := j.f.kernel("window_", j.l)
	return q.Window(k, &d.Batch, steps, more...)
}

// kernel is the kernel of f by a strategy, which its name begins with, unless that is of panes or by
// order, and its parameters besides those that all have.
func (f function) kernel(strategy launch.Kernel, l *cpuexec.Leaf) (k launch.Kernel, more []any) {
	w := l.Window
	switch f.GPU.Kernel {
	case abi.ByRate:
		return strategy + "rate", []any{f.Counter, f.divisor(w.Width)}
	case abi.ByPairs:
		return strategy + "pairs", []any{f.GPU.Number()}
	case abi.ByStatistic:
		return strategy + "statistic", []any{f.GPU.Number(), w.Param, w.Trend, l.Grid.Start, l.Grid.Interval}
	case abi.ByOperator:
		return strategy + "over", []any{f.GPU.Number()}
	default:
		return strategy + "ends", []any{f.GPU.Number()}
	}
}

// fuses reports whether a fused kernel may compute the windows: they share no sample, as those of
// dashboards over weeks, whose steps are longer than their windows.
func (f function) fuses(s launch.Steps) bool {
	return slices.Contains(f.GPU.Kernel.Strategies(), abi.Fused) && (s.Count == 1 || s.Width <= s.Interval)
}

// deviceMap is a map as the kernel computes it.
type deviceMap struct {
	f     uint32 // its number
	truth bool
	a, b  float64
}

// mapOf is a map for the device.
func mapOf(m *plan.Map) deviceMap {
	f := vector.Of(m.Func)
	policy := f.GPU
	if m.Swap && f.Swapped.Name != "" {
		policy = f.Swapped
	}
	d := deviceMap{f: policy.Number(), truth: m.Bool}
	switch {
	case f.Constants != nil:
		d.a, d.b = f.Constants(m.Args)
	case len(m.Args) > 0:
		d.a = m.Args[0]
	}
	return d
}

// apply puts the maps of a batch's values on a stream.
func (j *queryJob) apply(q launch.Queue, d *pipeline.Batch) error {
	const length = uint32(64) // steps of a thread
	each, n := j.Places()*int(unsafe.Sizeof(uint32(0))), j.steps.Count
	for i, m := range j.maps {
		kept := j.At(j.kept) + cuda.Pointer(i*each+d.Base*int(unsafe.Sizeof(uint32(0))))
		err := q.PerSeries("map_values", d.Tiles, n, length, d.Out.Values, d.Tiles, n, length, m.f, m.truth, m.a, m.b, kept)
		if err != nil {
			return err
		}
	}
	return nil
}
