package window

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// reducer computes a function of one window's samples. ts and vs hold at least
// one sample and no stale marker. It reports false where the function has no
// value.
type reducer func(ts []int64, vs []float64) (float64, bool)

// reducers are the functions that look at each window's samples anew, by their
// names in plan.Windows. Each makes the floating-point operations of
// Prometheus's function of that name, in its order.
var reducers = map[string]reducer{
	"ts_of_min_over_time": func(ts []int64, vs []float64) (float64, bool) {
		at := 0
		for k, v := range vs {
			if v <= vs[at] || vs[at] != vs[at] {
				at = k
			}
		}
		return float64(ts[at]) / 1000, true
	},
	"ts_of_max_over_time": func(ts []int64, vs []float64) (float64, bool) {
		at := 0
		for k, v := range vs {
			if v >= vs[at] || vs[at] != vs[at] {
				at = k
			}
		}
		return float64(ts[at]) / 1000, true
	},
	"count_over_time": func(_ []int64, vs []float64) (float64, bool) {
		return float64(len(vs)), true
	},
	plan.Present.Name: func([]int64, []float64) (float64, bool) {
		return 1, true
	},
	"present_over_time": func([]int64, []float64) (float64, bool) {
		return 1, true
	},
	"first_over_time": func(_ []int64, vs []float64) (float64, bool) {
		return vs[0], true
	},
	"last_over_time": func(_ []int64, vs []float64) (float64, bool) {
		return vs[len(vs)-1], true
	},
	"ts_of_first_over_time": func(ts []int64, _ []float64) (float64, bool) {
		return float64(ts[0]) / 1000, true
	},
	"ts_of_last_over_time": func(ts []int64, _ []float64) (float64, bool) {
		return float64(ts[len(ts)-1]) / 1000, true
	},
}

// reduce fills out with f over the samples of each step's window and returns the
// number of steps with a value.
func reduce(ts []int64, vs []float64, b *bounds, f reducer, out dense.Row) (points int) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	for k := range b.lo {
		i, j := b.lo[k], b.hi[k]
		if i == j {
			continue
		}
		if b.giveUp(k) {
			break
		}
		if v, ok := f(ts[i:j], vs[i:j]); ok {
			cur.Set(k, v)
			points++
		}
	}
	return points
}
