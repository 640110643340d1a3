package layout

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// Every chunk keeps its place in order, and stands at a position of its period.
func TestAlign(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var cs [Lanes][]selection.Chunk
		sparse := r.IntN(20)
		for lane := range 1 + r.IntN(Lanes) {
			for k := range int64(r.IntN(40)) {
				if r.IntN(20) >= sparse {
					cs[lane] = append(cs[lane], selection.Chunk{MinT: k * period / int64(1+sparse%4), Len: 1})
				}
			}
		}
		before := cs
		for lane := range cs {
			cs[lane] = slices.Grow(cs[lane], 3) // what is behind is another's
			before[lane] = slices.Clone(cs[lane])
		}
		from := cs
		periods, positions := align(&cs)
		for lane, l := range cs {
			require.Equal(t, before[lane], from[lane], "chunks are of the selection")
			held := slices.DeleteFunc(slices.Clone(l), func(c selection.Chunk) bool { return c.Len == 0 })
			require.True(t, slices.Equal(before[lane], held))
			require.LessOrEqual(t, len(l), positions)
		}
		for k, first := range append(periods, positions)[:len(periods)] {
			end := append(periods, positions)[k+1]
			now := map[int64]bool{}
			for _, l := range cs {
				for _, c := range l[min(first, len(l)):min(end, len(l))] {
					if c.Len > 0 {
						now[c.MinT/period] = true
					}
				}
			}
			require.Len(t, now, 1, "a period has the chunks that begin in it")
		}
	}
}
