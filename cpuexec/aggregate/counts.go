package aggregate

import (
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// This file defines count and group, which do not look at values.

var (
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "count"},
		adds: &adding{
			n:     true,
			first: func(a *cells, c int, _ float64) { a.n[c] = 1 },
			next:  func(a *cells, c int, _ float64) { a.n[c]++ },
			more: func(a *cells, from, to int, _ []float64) {
				n := a.n[from:to]
				for k := range n {
					n[k]++
				}
			},
			results: func(a *cells, c int, out []float64) { copy(out, a.n[c:]) },
		},
		GPU: abi.Policy{Kernel: abi.ByOperator, Name: "Count"},
	})
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "group"},
		adds: &adding{
			first: func(*cells, int, float64) {},
			next:  func(*cells, int, float64) {},
			more:  func(*cells, int, int, []float64) {},
			results: func(_ *cells, _ int, out []float64) {
				for k := range out {
					out[k] = 1
				}
			},
		},
		GPU: abi.Policy{Kernel: abi.ByOperator, Name: "Group"},
	})
)
