package exact

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
)

// TestRange: the least and the largest of some units, however many they are and wherever they lie.
func TestRange(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 8))
	for range 100 {
		for n := 1; n < 71; n++ {
			units, most := make([]uint32, n+r.IntN(8)), r.Uint32()
			for k := range units {
				units[k] = r.Uint32N(max(most, 1))
			}
			units[r.IntN(len(units))] = []uint32{0, math.MaxUint32, 1 << 31, most}[r.IntN(4)]
			units = units[len(units)-n:]
			low, high := Range(units)
			require.Equal(t, slices.Min(units), low)
			require.Equal(t, slices.Max(units), high)
		}
	}
}

// TestAddFinite: values added several at once have the sums and errors of those added one by one, up
// to four of which one error is not finite; those and what is behind them stay as they are.
func TestAddFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 9))
	all, stopped := 0, 0
	for range 100 {
		for n := range 71 {
			at := r.IntN(4)
			val, comp, in := make([]float64, at+n+4), make([]float64, at+n+4), make([]float64, n)
			odd := r.IntN(2) == 0
			for k := range val {
				val[k], comp[k] = r.NormFloat64()*1e6, exacttest.Odd(r)
			}
			for k := range in {
				in[k] = r.NormFloat64() * math.Pow(10, float64(r.IntN(20)))
				if odd && r.IntN(16) == 0 {
					in[k], val[at+k] = exacttest.Odd(r), exacttest.Odd(r)
				}
			}
			wantVal, wantComp := slices.Clone(val), slices.Clone(comp)
			done := AddFinite(val[at:], comp[at:], in)
			require.Zero(t, done%Lanes)
			require.LessOrEqual(t, done, n)
			finite := func(k int) bool {
				_, e := twoSum(wantVal[at+k], in[k], 0)
				return e-e == 0
			}
			for k := range done {
				require.True(t, finite(k))
			}
			if next := done + Lanes; hasVectors && next <= n {
				require.False(t, finite(done) && finite(done+1) && finite(done+2) && finite(done+3))
				stopped++
			}
			for k := range done {
				wantVal[at+k], wantComp[at+k] = twoSum(wantVal[at+k], in[k], wantComp[at+k])
			}
			exacttest.RequireSame(t, wantVal, val, "sums")
			exacttest.RequireSame(t, wantComp, comp, "errors")
			all += done
		}
	}
	require.True(t, !hasVectors || all > 100_000 && stopped > 200, "%d, %d", all, stopped)
}
