package results

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/plan"
)

// Order puts the rows in the order of the first series that had a value in their
// groups, as Prometheus's engine does. Afterwards First means nothing.
func (v *Values) Order() {
	bySeries := make([]int32, len(v.Series))
	for k := range bySeries {
		bySeries[k] = int32(k)
	}
	slices.SortFunc(bySeries, func(a, b int32) int { return labels.Compare(v.Series[a], v.Series[b]) })
	rank := make([]int32, len(v.Series))
	for k, s := range bySeries {
		rank[s] = int32(k)
	}
	least := make([]int32, len(v.Rows))
	order := make([]int, len(v.Rows))
	for i, first := range v.First {
		order[i], least[i] = i, math.MaxInt32
		for _, s := range first {
			least[i] = min(least[i], rank[s])
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(least[a], least[b]) })
	rows := make([]plan.Row, len(order))
	for i, k := range order {
		rows[i] = v.Rows[k]
	}
	v.Rows, v.First = rows, nil
}
