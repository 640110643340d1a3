// Package results remembers what leaves of plans, windows with what aggregates
// them, came to at steps whose samples are settled, so that a dashboard that is
// looked at again, a little later, needs only its newest steps evaluated.
package results

import (
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
}

// Piece is some of the steps of values: from From to To, the end excluded.
type Piece struct {
	*Values
	From, To int
}

// Join returns what pieces that follow one another come to together, in memory of
// its own. There must be at least one step.
func Join(pieces ...Piece) *Values {
	steps := 0
	for _, p := range pieces {
		steps += p.To - p.From
	}
	first := pieces[0]
	out := &Values{
		Grid: plan.Grid{Start: first.Grid.At(first.From), Interval: first.Grid.Interval, Steps: steps},
		All:  make([]int64, 0, steps), Fresh: make([]int64, 0, steps),
	}
	rows := rowIndex{}
	at := 0
	for _, p := range pieces {
		if p.From == p.To {
			continue
		}
		out.All = append(out.All, p.All[p.From:p.To]...)
		out.Fresh = append(out.Fresh, p.Fresh[p.From:p.To]...)
		for i := range p.Rows {
			appendRow(&rows, out, &p.Rows[i], p.From, p.To, at)
		}
		at += p.To - p.From
	}
	for i := range out.Rows {
		if row := &out.Rows[i]; len(row.Values) < steps/2 {
			row.Values = slices.Clip(slices.Clone(row.Values))
		}
	}
	return out
}

// appendRow appends the values of a row at steps from to to, the end excluded, to
// the row of out with the same labels, as those from step at on.
func appendRow(rows *rowIndex, out *Values, in *plan.Row, from, to, at int) {
	var row *plan.Row
	base := 0
	for _, run := range in.Runs {
		lo, hi := max(int(run.First), from), min(int(run.First+run.Len), to)
		if lo < hi {
			if row == nil {
				row = rows.row(out, in.Labels)
			}
			row.Values = append(row.Values, in.Values[base+lo-int(run.First):base+hi-int(run.First)]...)
			first, n := int32(at+lo-from), int32(hi-lo)
			if k := len(row.Runs) - 1; k >= 0 && row.Runs[k].First+row.Runs[k].Len == first {
				row.Runs[k].Len += n
			} else {
				row.Runs = append(row.Runs, plan.Run{First: first, Len: n})
			}
		}
		base += int(run.Len)
	}
}

// rowIndex finds rows by their labels.
type rowIndex struct {
	byLabels map[string]int
	buf      []byte
}

// row returns the row of v with the given labels, a new one if there is none.
func (x *rowIndex) row(v *Values, l labels.Labels) *plan.Row {
	x.buf = l.Bytes(x.buf)
	k, ok := x.byLabels[string(x.buf)]
	if !ok {
		if x.byLabels == nil {
			x.byLabels = map[string]int{}
		}
		k = len(v.Rows)
		x.byLabels[string(x.buf)] = k
		v.Rows = append(v.Rows, plan.Row{Labels: l, Values: make([]float64, 0, v.Grid.Steps)})
	}
	return &v.Rows[k]
}

// size is the memory of v in bytes.
func (v *Values) size() int64 {
	n := int64(unsafe.Sizeof(*v)) + 8*int64(cap(v.All)+cap(v.Fresh)) + int64(cap(v.Rows))*int64(unsafe.Sizeof(plan.Row{}))
	for i := range v.Rows {
		row := &v.Rows[i]
		n += 8*int64(cap(row.Values)) + int64(cap(row.Runs))*int64(unsafe.Sizeof(plan.Run{}))
		row.Labels.Range(func(l labels.Label) { n += int64(len(l.Name)+len(l.Value)) + 2 })
	}
	return n
}
