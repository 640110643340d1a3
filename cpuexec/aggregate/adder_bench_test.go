package aggregate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/promwarp/promwarp/cpuexec/dense"
)

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
