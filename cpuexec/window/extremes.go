package window

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = defineExtreme("max_over_time", 1, "Max", Largest)
	_ = defineExtreme("min_over_time", -1, "Min", Smallest)
)

func defineExtreme(name string, sign float64, policy string, sees Sees) *plan.WindowFunc {
	return define(&Function{
		WindowFunc: plan.WindowFunc{Name: name},
		Plain: func(w *Window) (float64, bool) {
			extreme := w.Values[0]
			for _, v := range w.Values {
				if v*sign > extreme*sign || extreme != extreme {
					extreme = v
				}
			}
			return extreme, true
		},
		Fast: func(s *Evaluator) (int, bool) {
			s.indices = extremes(s.in.Values, &s.bounds, sign, s.indices, s.out)
			return s.fr.Counts.Points, true
		},
		Sees: sees,
		GPU:  abi.Policy{Kernel: abi.ByOperator, Name: policy, Pane: abi.ExtremeBytes},
	})
}

// timeOf is the time in seconds of the largest value, or the smallest when sign is -1: of the
// last of equal ones.
func (w *Window) timeOf(sign float64) float64 {
	at := 0
	for k, v := range w.Values {
		if best := w.Values[at]; v*sign >= best*sign || best != best {
			at = k
		}
	}
	return w.secondsAt(at)
}

// extremes fills out with the largest value of each window, or the smallest
// when sign is -1. Of equal ones it is the first, and NaN only where there is
// nothing else, as in Prometheus's loop. queue holds the samples that are the
// extreme of some window still to come; the grown slice is returned.
func extremes(vs []float64, b *frame.Bounds, sign float64, queue []int32, out dense.Row) []int32 {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	queue = queue[:0]
	head, next := 0, int32(0)
	for k := range b.Lo {
		lo, hi := b.Lo[k], b.Hi[k]
		if lo == hi {
			continue
		}
		for next = max(next, lo); next < hi; next++ {
			v := vs[next] * sign
			if v != v {
				continue
			}
			for len(queue) > head && vs[queue[len(queue)-1]]*sign < v {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, next)
		}
		for head < len(queue) && queue[head] < lo {
			head++
		}
		if head < len(queue) {
			cur.Set(k, vs[queue[head]])
		} else {
			cur.Set(k, vs[lo])
		}
	}
	return queue
}
