package window

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shapes made several at once have the bits of those made one by one, whether windows are full or
// begin or end by far. What tells which counters may begin within the window is never too small.
func TestShapes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 2))
	halves := 0
	for n := range 4000 {
		windows := 1 + r.IntN(40)
		width := 2 + r.Int64N(1+r.Int64N(math.MaxInt32-2))
		lo, hi, lead, trail := make([]int32, windows), make([]int32, windows), make([]int32, windows), make([]int32, windows)
		for k := range lo {
			lo[k] = r.Int32N(1000)
			samples := 1 + r.Int64N(1+r.Int64N(width-1))
			if r.IntN(2) == 0 {
				samples = min(samples, 30)
			}
			hi[k] = lo[k] + int32(samples)
			every := width / samples
			lead[k], trail[k] = int32(r.Int64N(every+1)), int32(r.Int64N(every+1))
			if r.IntN(10) == 0 {
				lead[k] = int32(r.Int64N(width))
			}
			if r.IntN(10) == 0 {
				trail[k] = int32(r.Int64N(width))
			}
			if int64(lead[k])+int64(trail[k]) >= width {
				lead[k], trail[k] = 0, 0
			}
		}
		seconds := 0.0
		if r.IntN(2) == 0 {
			seconds = secondsOf(width)
		}
		factors, nears := make([]float64, windows), make([]float64, windows)
		for k := range shapes(factors, nears, lo, hi, lead, trail, width, seconds) {
			if hi[k]-lo[k] < 2 {
				continue
			}
			sh := newShape(int(hi[k]-lo[k]), int64(lead[k]), int64(trail[k]), width-int64(lead[k])-int64(trail[k]), seconds)
			require.Equal(t, math.Float64bits(sh.factor), math.Float64bits(factors[k]), "seed %d, case %d, window %d: %+v", seed, n, k, sh)
			require.GreaterOrEqual(t, nears[k], sh.near(), "seed %d, case %d, window %d: %+v", seed, n, k, sh)
			if sh.toStart != float64(lead[k])/1000 {
				halves++
			}
		}
	}
	if vectors := shapes(make([]float64, 4), make([]float64, 4), make([]int32, 4), make([]int32, 4), make([]int32, 4), make([]int32, 4), 1, 0) > 0; vectors {
		require.Greater(t, halves, 1000, "seed %d", seed)
	}
}
