package column

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
)

// TestWiden: units made values several at once have the bits of those made one by one, however many
// they are and wherever they lie, and nothing behind them is written.
func TestWiden(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 6))
	for range 60 {
		for n := range 71 {
			at := r.IntN(8)
			units := make([]uint32, at+n)
			for k := range units {
				units[k] = []uint32{r.Uint32(), r.Uint32N(300), 0, math.MaxUint32, 1 << 31}[r.IntN(5)]
			}
			base, unit := float64(r.Int64N(1<<52)-1<<51), math.Ldexp(1, r.IntN(20))
			if r.IntN(4) == 0 {
				base, unit = exacttest.Odd(r), exacttest.Odd(r)
			}
			want, got := make([]float64, n), make([]float64, at+n+8)
			for k := range got {
				got[k] = 0.5
			}
			widenEach(want, units[at:], base, unit)
			widen(got[at:at+n], units[at:], base, unit)
			exacttest.RequireSame(t, want, got[at:at+n], "widened")
			for _, v := range append(got[:at:at], got[at+n:]...) {
				require.Equal(t, 0.5, v)
			}
		}
	}
}

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

// BenchmarkVectors measures what is done several at once, where the processor can, on 1440 each.
// GODEBUG=cpu.avx2=off has the plain forms.
func BenchmarkVectors(b *testing.B) {
	const n = 1440
	units, to, late, out := make([]uint32, n), make([]int32, n), make([]uint16, n), make([]float64, n)
	for k := range units {
		units[k], to[k], late[k] = uint32(7*k), int32(k), uint16(k*7%13)
	}
	runs := Runs{Even: EvenRuns{{0, n, 0, 15_000, 12}}, Late: late}
	b.Run("widen", func(b *testing.B) {
		for b.Loop() {
			widen(out, units, 1e6, 1)
		}
	})
	b.Run("since", func(b *testing.B) {
		for b.Loop() {
			runs.Since(to, 0, 0, 15_000, out)
		}
	})
}
