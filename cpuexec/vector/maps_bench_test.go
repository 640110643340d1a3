package vector

import (
	"testing"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// BenchmarkMaps measures maps of 1440 values, one at every step.
func BenchmarkMaps(b *testing.B) {
	const steps = 1440
	for _, m := range []*plan.Map{
		{Func: Named("*"), Args: []float64{1}},
		{Func: Named("-"), Args: []float64{1}, Swap: true},
		{Func: Named("/"), Args: []float64{1}},
		{Func: Named(">"), Args: []float64{-1}},
		{Func: Named("=="), Args: []float64{3}, Bool: true},
		{Func: Named("abs")},
		{Func: Named("clamp_min"), Args: []float64{1}},
	} {
		name := m.Func.Name
		if name == "/" {
			name = "over"
		}
		b.Run(name, func(b *testing.B) {
			in := dense.New(steps)
			for k := range in.Values {
				in.Values[k] = float64(k)
			}
			in.Mark(0, steps)
			f := newMapper(m)
			b.SetBytes(8 * steps)
			for b.Loop() {
				f.apply(in)
			}
		})
	}
}
