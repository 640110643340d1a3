// Package results remembers what leaves of plans, windows with what aggregates
// them, came to at steps whose samples are settled, so that a dashboard that is
// looked at again, a little later, needs only its newest steps evaluated.
package results

import (
	"cmp"
	"math"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/plan"
)

// Values are what a leaf came to at consecutive steps, and the samples that it read.
// They are never changed.
type Values struct {
	Grid plan.Grid
	Rows []plan.Row // in any order; no two have the same labels
	// All are the samples in the windows of each step, and Fresh those of them that
	// no earlier step had. Of the first step that may be unknown, which is -1.
	All, Fresh []int64
	// First says which series was the first of its group with a value, for each value
	// of each row, by its place in Series. It is nil where it is not needed.
	First  [][]int32
	Series []labels.Labels
}

// StepRange is some of the steps of values: from From to To, the end excluded.
type StepRange struct {
	*Values
	From, To int
}

// Join returns what ranges that follow one another come to together, in memory of
// its own. There must be at least one step. All have First, or none has.
func Join(ranges ...StepRange) *Values {
	var names, series numbers
	var lengths []int                   // values of each row of the result
	rowOf := make([][]int, len(ranges)) // of the result, by range and its row; -1 for none
	steps := 0
	for n, p := range ranges {
		steps += p.To - p.From
		for i := range p.Rows {
			row, values := -1, 0
			for _, run := range p.Rows[i].Runs {
				values += max(0, min(int(run.First+run.Len), p.To)-max(int(run.First), p.From))
			}
			if values > 0 {
				if row = int(names.number(p.Rows[i].Labels)); row == len(lengths) {
					lengths = append(lengths, 0)
				}
				lengths[row] += values
			}
			rowOf[n] = append(rowOf[n], row)
		}
	}
	first := ranges[0]
	out := &Values{
		Grid: plan.Grid{Start: first.Grid.At(first.From), Interval: first.Grid.Interval, Steps: steps},
		Rows: make([]plan.Row, len(lengths)),
		All:  make([]int64, 0, steps), Fresh: make([]int64, 0, steps),
	}
	if first.First != nil {
		out.First = make([][]int32, len(lengths))
	}
	for row, n := range lengths {
		out.Rows[row] = plan.Row{Labels: names.labels[row], Values: make([]float64, 0, n)}
		if out.First != nil {
			out.First[row] = make([]int32, 0, n)
		}
	}
	for n, p := range ranges {
		at := len(out.All)
		after := make([]int32, len(p.Series)) // the number of each series and one, or 0 while it is not known
		for i, row := range rowOf[n] {
			if row < 0 {
				continue
			}
			in, joined := &p.Rows[i], &out.Rows[row]
			base := 0 // values of the runs before
			for _, run := range in.Runs {
				lo, hi := max(int(run.First), p.From), min(int(run.First+run.Len), p.To)
				begin, end := base+lo-int(run.First), base+hi-int(run.First)
				base += int(run.Len)
				if lo >= hi {
					continue
				}
				joined.Values = append(joined.Values, in.Values[begin:end]...)
				if out.First != nil {
					for _, s := range p.First[i][begin:end] {
						if after[s] == 0 {
							after[s] = series.number(p.Series[s]) + 1
						}
						out.First[row] = append(out.First[row], after[s]-1)
					}
				}
				joined.Runs = plan.AppendRun(joined.Runs, plan.Run{First: int32(at + lo - p.From), Len: int32(hi - lo)})
			}
		}
		out.All = append(out.All, p.All[p.From:p.To]...)
		out.Fresh = append(out.Fresh, p.Fresh[p.From:p.To]...)
	}
	out.Series = series.labels
	return out
}

// numbers gives labels numbers, equal ones the same.
type numbers struct {
	byLabels map[string]int32
	labels   []labels.Labels // by number
	buf      []byte
}

func (n *numbers) number(l labels.Labels) int32 {
	n.buf = l.Bytes(n.buf)
	k, ok := n.byLabels[string(n.buf)]
	if !ok {
		if n.byLabels == nil {
			n.byLabels = map[string]int32{}
		}
		k = int32(len(n.labels))
		n.byLabels[string(n.buf)] = k
		n.labels = append(n.labels, l)
	}
	return k
}

// size is the memory of v in bytes.
func (v *Values) size() int64 {
	n := int64(unsafe.Sizeof(*v)) + 8*int64(cap(v.All)+cap(v.Fresh)) + int64(cap(v.Rows))*int64(unsafe.Sizeof(plan.Row{}))
	for i := range v.Rows {
		row := &v.Rows[i]
		n += 8*int64(cap(row.Values)) + int64(cap(row.Runs))*int64(unsafe.Sizeof(plan.Run{})) + int64(row.Labels.ByteSize())
	}
	for _, first := range v.First {
		n += 4*int64(cap(first)) + int64(unsafe.Sizeof(first))
	}
	for _, l := range v.Series {
		n += int64(l.ByteSize()) + int64(unsafe.Sizeof(l))
	}
	return n
}

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
