package column

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Values that can be packed come back bit by bit, and those that can not are told.
func TestPacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(-exact.MaxInteger+1, exact.MaxInteger-1).Draw(t, "base")
		unit := rapid.IntRange(0, 24).Draw(t, "unit")
		var vs []float64
		fits := true
		for _, u := range rapid.SliceOfN(rapid.Uint32(), 1, 50).Draw(t, "units") {
			n := base + int64(u)<<unit
			fits = fits && n < exact.MaxInteger
			vs = append(vs, float64(n))
		}
		p, ok := packIfExact(vs)
		if fits {
			require.True(t, ok)
		}
		if ok {
			requireSameBits(t, vs, p.append(nil, 0, len(vs)))
			lo := rapid.IntRange(0, len(vs)).Draw(t, "lo")
			hi := rapid.IntRange(lo, len(vs)).Draw(t, "hi")
			requireSameBits(t, append([]float64{7}, vs[lo:hi]...), p.append([]float64{7}, lo, hi))
		}
	})
}

func TestNotPacked(t *testing.T) {
	for _, vs := range [][]float64{
		nil,
		{0.5}, {1, 2, 2.5},
		{math.NaN()}, {1, math.Float64frombits(value.StaleNaN)},
		{math.Inf(1)}, {0, math.Inf(-1)},
		{math.Copysign(0, -1)}, {3, math.Copysign(0, -1)},
		{exact.MaxInteger}, {-exact.MaxInteger}, {0, 1e300},
		{0, 1, 1 << 32}, {-1, 0, 1<<32 - 1},
	} {
		_, ok := packIfExact(vs)
		require.False(t, ok, "%v", vs)
	}
}

// Whatever the values are, packing loses nothing or is refused.
func TestPackedArbitrary(t *testing.T) {
	values := []float64{0, 1, -1, 4096, 1 << 31, 1 << 32, 1<<32 - 1, exact.MaxInteger - 1, 1 - exact.MaxInteger, 0.5, math.NaN(), math.Inf(1), math.Copysign(0, -1), math.MaxFloat64, 1e-300}
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(rapid.SampledFrom(values), 1, 4).Draw(t, "values")
		if p, ok := packIfExact(vs); ok {
			requireSameBits(t, vs, p.append(nil, 0, len(vs)))
		}
	})
}

func requireSameBits(t require.TestingT, want, got []float64) {
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got[i]), "%v %v", want[i], got[i])
	}
}
