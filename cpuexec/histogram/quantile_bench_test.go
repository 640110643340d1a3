package histogram

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/plan"
)

// BenchmarkHistogramQuantile computes quantiles of 160 histograms of 12 buckets
// at 1440 steps, on one core.
func BenchmarkHistogramQuantile(b *testing.B) {
	const steps = 1440
	r := rand.New(rand.NewPCG(3, 3))
	var in []plan.Row
	for inst := range 160 {
		var rates [12][]float64
		for i := range rates {
			rates[i] = make([]float64, steps)
		}
		for k := range steps {
			sum := 0.0
			for i := range rates {
				if i < 8 || r.IntN(3) == 0 {
					sum += float64(r.IntN(100)) / 285
				}
				rates[i][k] = sum
			}
		}
		for i, le := range []string{"0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"} {
			in = append(in, plan.Row{
				Labels: labels.FromStrings("instance", fmt.Sprint(inst), "le", le),
				Values: rates[i], Runs: []plan.Run{{First: 0, Len: steps}},
			})
		}
	}
	n := &plan.Histogram{Func: Named("histogram_quantile"), Args: []float64{0.5}}
	for b.Loop() {
		var s Evaluator
		for _, h := range Group(n, in, false, func(err error) { b.Fatal(err) }) {
			if got := s.Evaluate(n, Args{Constants: n.Args}, &h, in); len(got.Values) != steps {
				b.Fatal(len(got.Values))
			}
		}
	}
}
