package exact

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
)

// A quantile that is found among the few largest or smallest values has the bits that
// it has among all of them in order.
func TestQuantileOf(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	odd := []float64{math.NaN(), math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 0}
	for range 20_000 {
		vs := make([]float64, 1+r.IntN([]int{60, 400}[r.IntN(2)]))
		for k := range vs {
			vs[k] = float64(r.IntN(20) - 10) // with equal ones
			if r.IntN(2) == 0 {
				vs[k] = r.NormFloat64()
			}
			if r.IntN(200) == 0 {
				vs[k] = odd[r.IntN(len(odd))]
			}
		}
		q := []float64{0, 1, 0.5, 0.9, r.Float64()}[r.IntN(5)]
		sorted := slices.Clone(vs)
		slices.Sort(sorted)
		lower, upper, weight := position(q, len(vs))
		want := between(sorted[lower], sorted[upper], weight)
		exacttest.RequireSame(t, []float64{want}, []float64{innerQuantile(q, vs)}, fmt.Sprint(q, " of ", vs))
	}
}
