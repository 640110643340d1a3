package cpuexec

import (
	"math/bits"

	"github.com/promwarp/promwarp/plan"
)

// firsts are the first series with a value of the groups of an aggregation: for each
// row one for each of its values.
type firsts struct{ of [][]int32 }

// noteFirsts notes a series as the first of its group at those steps of words [w0,
// w1) at which it has a value and none before it had one.
func (a *aggregator) noteFirsts(group int, series int32, present []uint64, w0, w1 int) {
	seen, of := a.acc.seen[group*a.acc.words:], a.firsts[group*a.steps:]
	for w := w0; w < w1; w++ {
		for p := present[w] &^ seen[w]; p != 0; p &= p - 1 {
			of[w<<6+bits.TrailingZeros64(p)] = series
		}
	}
}

// firstSeries lists what was noted of rows, which are the aggregator's.
func (a *aggregator) firstSeries(rows []plan.Row) [][]int32 {
	out := make([][]int32, len(rows))
	for i, g := range a.order()[:len(rows)] {
		of := a.firsts[g*a.steps:]
		out[i] = make([]int32, 0, len(rows[i].Values))
		for _, run := range rows[i].Runs {
			out[i] = append(out[i], of[run.First:run.First+run.Len]...)
		}
	}
	return out
}
