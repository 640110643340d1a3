package cpuexec

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// odd draws values of all kinds: plain ones, near and beyond the largest, tiny
// ones, both zeros, NaN and both infinities.
func odd(r *rand.Rand) float64 {
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

// identical compares bits, except that all NaNs are one.
func identical(t *testing.T, want, got []float64, of string) {
	require.Len(t, got, len(want))
	for k := range want {
		if math.IsNaN(want[k]) && math.IsNaN(got[k]) {
			continue
		}
		require.Equal(t, math.Float64bits(want[k]), math.Float64bits(got[k]), "%s: %v and %v", of, want[k], got[k])
	}
}

// TestFullWords: adding stretches of values yields the same bits as adding them
// one by one.
func TestFullWords(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range slices.Sorted(maps.Keys(plan.Aggregates)) {
		if op := plan.Aggregates[name]; op.Adds() {
			for range 3000 {
				const n = 70
				one, all := newCells(op, n), newCells(op, n)
				usual := r.IntN(2) == 0 // values that overflow nowhere
				for series := range 1 + r.IntN(12) {
					in := make([]float64, n)
					for k := range in {
						if in[k] = odd(r); usual {
							in[k] = r.NormFloat64()
						}
						if series == 0 {
							one.first(k, in[k])
							all.first(k, in[k])
						} else if k >= 3 && k < 67 {
							one.next(k, in[k])
						}
					}
					if series > 0 {
						all.full(0, 3, 67, in)
					}
				}
				identical(t, one.val, all.val, name)
				identical(t, one.comp, all.comp, name)
				identical(t, one.n, all.n, name)
				require.Equal(t, one.incr, all.incr)
				want, got := make([]float64, n), make([]float64, n)
				one.results(0, want)
				all.results(0, got)
				identical(t, want, got, name)
			}
		}
	}
}

// TestMapper: maps change the values that are there as their functions say, and
// comparisons keep those for which they hold.
func TestMapper(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, name := range slices.Sorted(maps.Keys(plan.Maps)) {
		f := plan.Maps[name]
		for range 300 {
			m := &plan.Map{Func: f, Swap: r.IntN(2) == 0, Bool: f.Compares && r.IntN(2) == 0}
			for range f.Args {
				m.Args = append(m.Args, odd(r))
			}
			in := dense.New(1 + r.IntN(200))
			for w := range in.Present {
				in.Present[w] = []uint64{0, ^uint64(0), r.Uint64()}[r.IntN(3)]
			}
			if over := len(in.Values) & 63; over > 0 {
				in.Present[len(in.Present)-1] &= 1<<over - 1
			}
			for k := range in.Values {
				if in.Values[k] = odd(r); f.Args > 0 && r.IntN(4) == 0 {
					in.Values[k] = m.Args[0]
				}
			}
			var want, got []float64
			for k, v := range in.Values {
				if in.Present[k>>6]>>(k&63)&1 == 0 {
					continue
				}
				a, b := v, 0.0
				if f.Args > 0 {
					if b = m.Args[0]; m.Swap {
						a, b = b, a
					}
				}
				switch {
				case m.Bool:
					want = append(want, scalarFunc(f)(a, b))
				case !f.Compares && arithmetic[name] == nil:
					want = append(want, valueFunc(m)(v))
				case !f.Compares:
					want = append(want, arithmetic[name](a, b))
				case comparisons[name](a, b):
					want = append(want, v)
				}
			}
			n := newMapper(m).apply(in)
			for k, v := range in.Values {
				if in.Present[k>>6]>>(k&63)&1 == 1 {
					got = append(got, v)
				}
			}
			require.Equal(t, len(want), n, name)
			identical(t, want, got, name)
		}
	}
}
