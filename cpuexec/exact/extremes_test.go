package exact

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExtremes: extremes have the bits of those that comparing values one after the other finds.
func TestExtremes(t *testing.T) {
	zero := math.Copysign(0, -1)
	all := []float64{0, zero, 1, -1, 5e-324, -5e-324, math.Inf(1), math.Inf(-1), math.MaxFloat64, math.NaN(), math.Copysign(math.NaN(), -1)}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		from := all[r.IntN(len(all)):]
		vs := make([]float64, 1+r.IntN(5))
		for i := range vs {
			vs[i] = from[r.IntN(len(from))]
		}
		lo, hi := vs[0], vs[0]
		for _, v := range vs {
			if v < lo || lo != lo {
				lo = v
			}
			if v > hi || hi != hi {
				hi = v
			}
		}
		gotLo, gotHi := Extremes(vs)
		require.Equal(t, [2]uint64{math.Float64bits(lo), math.Float64bits(hi)}, [2]uint64{math.Float64bits(gotLo), math.Float64bits(gotHi)}, vs)
	}
}
