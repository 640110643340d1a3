package gpuexec

import (
	"cmp"
	"time"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// window puts the window function over a batch on a stream.
func (j *queryJob) window(q launch.Queue, d *pipeline.Batch, steps launch.Steps) error {
	if j.Fused {
		k, more := j.kernel("fused_")
		return q.Fused(k, &d.Batch, steps, more...)
	}
	if j.panes != nil {
		return q.WindowPanes(&d.Batch, steps, j.panes, j.f.GPU.Number(), d.At(d.Output.Suffix), d.At(d.Output.Prefix))
	}
	k, more := j.kernel("window_")
	if k == "window_select" {
		more = append(more, d.Fault)
	}
	return q.Window(k, &d.Batch, steps, more...)
}

// kernel is the kernel of the function by a strategy, which its name begins with, unless that is of
// panes, and its parameters besides those that all have.
func (j *queryJob) kernel(strategy launch.Kernel) (k launch.Kernel, more []any) {
	f, w := j.f, j.l.Window
	switch f.GPU.Kernel {
	case abi.ByRate:
		divisor := 0.0 // results are not divided
		if f.PerSecond {
			divisor = (time.Duration(w.Width) * time.Millisecond).Seconds()
		}
		return strategy + "rate", []any{f.Counter, divisor}
	case abi.ByOrder:
		if f.GPU.Second {
			return strategy + "distance", nil
		}
		return strategy + "select", []any{w.Param}
	case abi.ByPairs:
		return strategy + "pairs", []any{f.GPU.Number()}
	case abi.ByStatistic:
		if j.recent {
			k = strategy + "recent"
		}
		return cmp.Or(k, strategy+"statistic"), []any{f.GPU.Number(), w.Param, w.Trend, j.l.Grid.Start, j.l.Grid.Interval}
	case abi.ByOperator:
		return strategy + "over", []any{f.GPU.Number()}
	default:
		return strategy + "ends", []any{f.GPU.Number()}
	}
}

// mapOf is the number of a map, as the kernel computes it, and its constants.
func mapOf(m *plan.Map) (number uint32, a, b float64) {
	f := vector.Of(m.Func)
	policy := f.GPU
	if m.Swap && f.Swapped.Name != "" {
		policy = f.Swapped
	}
	switch {
	case f.Constants != nil:
		a, b = f.Constants(m.Args)
	case len(m.Args) > 0:
		a = m.Args[0]
	}
	return policy.Number(), a, b
}

// apply puts the maps of a batch's values on a stream.
func (j *queryJob) apply(q launch.Queue, d *pipeline.Batch) error {
	const length = uint32(2048) // steps of a warp
	each, n := j.Places()*int(unsafe.Sizeof(uint32(0))), j.steps.Count
	for i, m := range j.l.Maps {
		number, a, b := mapOf(m)
		kept := j.At(j.kept) + cuda.Pointer(i*each+d.Base*int(unsafe.Sizeof(uint32(0))))
		err := q.PerRow("map_values", d.Tiles, n, length, d.Out.Values, d.Tiles*layout.Lanes, n, length, number, m.Bool, a, b, kept)
		if err != nil {
			return err
		}
	}
	return nil
}
