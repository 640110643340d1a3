package aggregate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
)

// TestFullWords: adding stretches of values yields the same bits as adding them
// one by one.
func TestFullWords(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range Functions() {
		if op, name := &f.AggregateFunc, f.Name; op.Adds() {
			for range 3000 {
				const n = 70
				one, all := newCells(op, n), newCells(op, n)
				usual := r.IntN(2) == 0 // values that overflow nowhere
				for series := range 1 + r.IntN(12) {
					in := make([]float64, n)
					for k := range in {
						if in[k] = exacttest.Odd(r); usual {
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
				exacttest.RequireSame(t, one.val, all.val, name)
				exacttest.RequireSame(t, one.comp, all.comp, name)
				exacttest.RequireSame(t, one.n, all.n, name)
				require.Equal(t, one.incr, all.incr)
				want, got := make([]float64, n), make([]float64, n)
				one.results(0, want)
				all.results(0, got)
				exacttest.RequireSame(t, want, got, name)
			}
		}
	}
}

// BenchmarkAdd measures adding series of 1440 steps to one group, all with a
// value at every step, and of words of 64 steps by themselves.
func BenchmarkAdd(b *testing.B) {
	for _, steps := range []int{64, 1440} {
		r := rand.New(rand.NewPCG(1, 2))
		rows := make([]dense.Row, 16)
		for i := range rows {
			rows[i] = dense.New(steps)
			for k := range rows[i].Values {
				rows[i].Values[k] = float64(r.IntN(1_000_000)) / 7
			}
			rows[i].Mark(0, steps)
		}
		for _, op := range []string{"sum", "avg", "min", "max", "count", "stddev"} {
			b.Run(fmt.Sprintf("%s/%d", op, steps), func(b *testing.B) {
				a := newAccumulator(Named(op), 1, steps)
				a.reserve(0)
				b.SetBytes(int64(8 * steps * len(rows)))
				for b.Loop() {
					for i := range rows {
						a.add(0, rows[i], 0, a.words)
					}
				}
			})
		}
	}
}
