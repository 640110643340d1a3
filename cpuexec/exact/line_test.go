package exact

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sums made at once have the bits of those made one by one.
func TestFiniteMoments(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for range 3000 {
		n := r.IntN(100)
		ts, vs := make([]int64, n), make([]float64, n)
		at := r.Int64N(1 << 40)
		for k := range ts {
			at += 1 + r.Int64N(30_000)
			ts[k], vs[k] = at, r.NormFloat64()*math.Pow(10, float64(r.IntN(20)))
		}
		origin := at - r.Int64N(2_000_000)
		require.Equal(t, momentBits(eachMoment(ts, vs, origin)), momentBits(finiteMoments(ts, vs, origin)))
	}
}

func momentBits(m moments) (b [8]uint64) {
	for i, f := range []float64{m.x, m.y, m.xy, m.x2, m.cX, m.cY, m.cXY, m.cX2} {
		b[i] = math.Float64bits(f)
	}
	return b
}
