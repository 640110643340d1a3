package dense

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
)

// TestCompare: each bit is Go's comparison of two values, NaN and both zeros included.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 65 {
		for range 50 {
			lhs, rhs := make([]float64, n), make([]float64, n)
			var equal, greater, atLeast uint64
			for k := range lhs {
				lhs[k], rhs[k] = exacttest.Odd(r), exacttest.Odd(r)
				if r.IntN(3) == 0 {
					rhs[k] = lhs[k]
				}
				for _, c := range []struct {
					word  *uint64
					holds bool
				}{{&equal, lhs[k] == rhs[k]}, {&greater, lhs[k] > rhs[k]}, {&atLeast, lhs[k] >= rhs[k]}} {
					if c.holds {
						*c.word |= 1 << k
					}
				}
			}
			require.Equal(t, equal, Equal(lhs, rhs))
			require.Equal(t, greater, Greater(lhs, rhs))
			require.Equal(t, atLeast, AtLeast(lhs, rhs))
		}
	}
}
