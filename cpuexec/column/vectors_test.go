package column

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSinceLate: the same of how late samples are.
func TestSinceLate(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 7))
	made, refused := 0, 0
	for range 5000 {
		n, before := r.IntN(71), int32(r.IntN(2))
		late := make([]uint16, 1+r.IntN(500))
		for k := range late {
			late[k] = []uint16{uint16(r.IntN(1 << 16)), 0, math.MaxUint16}[r.IntN(3)]
		}
		to := make([]int32, n)
		for k := range to {
			to[k] = before + int32(k*(len(late)-1)/max(n, 1))
		}
		every, interval, since := 1+r.Int64N(1<<20), r.Int64N(1<<20), r.Int64N(1<<41)-1<<40
		far := r.IntN(10) == 0
		if far {
			since = 1<<52 + 1 + r.Int64N(1<<52)
			if r.IntN(2) == 0 {
				since = -since
			}
		}
		out := make([]float64, n+8)
		for k := range out {
			out[k] = 0.5
		}
		done := sinceLate(out[:n:n], to, before, late, every, since, interval)
		switch {
		case far || !hasVectors:
			require.Zero(t, done)
			refused++
		default:
			require.Equal(t, n&^3, done)
			made += done
		}
		for k, v := range out {
			if k >= done {
				require.Equal(t, 0.5, v)
				continue
			}
			want := since - int64(k)*interval + int64(to[k])*every + int64(late[to[k]-before])
			require.Equal(t, math.Float64bits(float64(want)), math.Float64bits(v), "%v and %v", want, v)
		}
	}
	require.True(t, !hasVectors || made > 50_000, made)
	require.Greater(t, refused, 300)
}
