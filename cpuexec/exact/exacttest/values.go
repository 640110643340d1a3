// Package exacttest draws and compares values for tests of what must be exact to the last bit.
package exacttest

import (
	"math"
	"math/rand/v2"

	"github.com/stretchr/testify/require"
)

// Odd draws values of all kinds: plain ones, near and beyond the largest, tiny
// ones, both zeros, NaN and both infinities.
func Odd(r *rand.Rand) float64 {
	edge := []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64, -math.MaxFloat64,
		math.MaxFloat64 / 2, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022, 1, 2,
		math.Nextafter(math.MaxFloat64, 0), 0x1p970, -0x1p970, -0x1p969,
	}
	switch r.IntN(8) {
	case 0:
		return edge[r.IntN(len(edge))]
	case 1:
		return float64(r.IntN(5) - 2)
	default:
		return r.NormFloat64() * math.Pow(10, float64(r.IntN(30)-15))
	}
}

// RequireSame requires lists of values to have the same bits, except that all NaNs are one.
func RequireSame(t require.TestingT, want, got []float64, of string) {
	require.Len(t, got, len(want))
	for k := range want {
		if math.IsNaN(want[k]) && math.IsNaN(got[k]) {
			continue
		}
		require.Equal(t, math.Float64bits(want[k]), math.Float64bits(got[k]), "%s: %v and %v", of, want[k], got[k])
	}
}

// Abreast counts the steps that were made at once, and those before which this ended.
type Abreast struct {
	Vectors     bool // whether any can be
	steps, ends int
}

// Require checks that of steps as many were made as can be at once, up to four of which one is bad,
// that each is what want says, and that the others of out are untouched: those not made and four more.
func (d *Abreast) Require(t require.TestingT, made int, out []float64, bad func(k int) bool, want func(k int) float64) {
	steps := len(out) - 4
	require.Zero(t, made%4)
	require.LessOrEqual(t, made, steps)
	for k := range made {
		require.False(t, bad(k), "step %d", k)
		require.Equal(t, math.Float64bits(want(k)), math.Float64bits(out[k]), "step %d: %v, %v", k, want(k), out[k])
	}
	if d.Vectors && made+4 <= steps {
		require.True(t, bad(made) || bad(made+1) || bad(made+2) || bad(made+3), "step %d", made)
		d.ends++
	}
	for _, v := range out[made:] {
		require.Equal(t, 0.5, v)
	}
	d.steps += made
}

// Enough requires that these were many.
func (d *Abreast) Enough(t require.TestingT) {
	require.True(t, !d.Vectors || d.steps > 15_000 && d.ends > 150, "%+v", d)
}
