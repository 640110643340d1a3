package vector

import (
	"cmp"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// MergeWithin merges the rows of n if it is to, where limit is the error of the sample
// limit or nil. Which of two errors comes first is for Prometheus's engine to find out.
func MergeWithin(q *operator.Query, n plan.Node, rows []plan.Row, limit error, merges bool) ([]plan.Row, error) {
	if !merges {
		return rows, limit
	}
	rows, err := merge(q, rows)
	if limit != nil && err != nil {
		return nil, &plan.Declined{At: n, Reason: "series become the same, and there are too many samples, of which one comes first"}
	}
	return rows, cmp.Or(limit, err)
}

// merge makes one row of those with the same labels, as Prometheus's engine does of
// series that have become the same, and returns its error if two of them have a value
// at one step.
func merge(q *operator.Query, in []plan.Row) ([]plan.Row, error) {
	steps := q.Grid.Steps
	index := make(map[uint64]int, len(in))
	several := map[int]dense.Row{} // of the rows that are several
	out := in[:0]
	for _, x := range in {
		h := x.Labels.Hash()
		k, ok := index[h]
		if !ok {
			index[h] = len(out)
			out = append(out, x)
			continue
		}
		d, ok := several[k]
		if !ok {
			q.Charge(8 * int64(steps))
			if err := q.Done(); err != nil {
				return nil, err
			}
			d = dense.New(steps)
			d.Put(&out[k])
			several[k] = d
		}
		for _, run := range x.Runs {
			if d.Has(int(run.First), int(run.Len)) {
				return nil, ErrSameLabels
			}
		}
		d.Put(&x)
	}
	for k, d := range several {
		out[k] = d.Compact(dense.Count(d.Present), out[k].Labels)
	}
	return out, nil
}
