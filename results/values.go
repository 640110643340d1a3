// Package results remembers what leaves of plans, windows with what aggregates
// them, came to at steps whose samples are settled, so that a dashboard that is
// looked at again, a little later, needs only its newest steps evaluated.
package results

import (
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
	x := index{byLabels: map[string]int32{}}
	for _, p := range pieces {
		x.add(p)
	}
	out.Rows = x.rows()
	at := 0
	for n, p := range pieces {
		out.All = append(out.All, p.All[p.From:p.To]...)
		out.Fresh = append(out.Fresh, p.Fresh[p.From:p.To]...)
		for i, row := range x.row[n] {
			if row >= 0 {
				appendRow(&out.Rows[row], &p.Rows[i], p.From, p.To, at)
			}
		}
		at += p.To - p.From
	}
	return out
}

// index says which rows of pieces become one.
type index struct {
	byLabels map[string]int32
	labels   []labels.Labels // of each row of the result
	values   []int           // their number
	row      [][]int32       // of the result, by piece and its row; -1 for none
	buf      []byte
}

// add adds the rows of a piece.
func (x *index) add(p Piece) {
	row := make([]int32, len(p.Rows))
	for i := range p.Rows {
		n := 0
		for _, run := range p.Rows[i].Runs {
			n += max(0, min(int(run.First+run.Len), p.To)-max(int(run.First), p.From))
		}
		if row[i] = -1; n == 0 {
			continue
		}
		x.buf = p.Rows[i].Labels.Bytes(x.buf)
		k, ok := x.byLabels[string(x.buf)]
		if !ok {
			k = int32(len(x.labels))
			x.byLabels[string(x.buf)] = k
			x.labels, x.values = append(x.labels, p.Rows[i].Labels), append(x.values, 0)
		}
		row[i] = k
		x.values[k] += n
	}
	x.row = append(x.row, row)
}

// rows returns the result's rows, without values but with room for them.
func (x *index) rows() []plan.Row {
	total := 0
	for _, n := range x.values {
		total += n
	}
	room := make([]float64, total)
	rows := make([]plan.Row, len(x.labels))
	for k, n := range x.values {
		rows[k] = plan.Row{Labels: x.labels[k], Values: room[:0:n]}
		room = room[n:]
	}
	return rows
}

// appendRow appends the values of in at steps from from to to, the end excluded, to
// row, as those from step at on.
func appendRow(row, in *plan.Row, from, to, at int) {
	base := 0
	for _, run := range in.Runs {
		lo, hi := max(int(run.First), from), min(int(run.First+run.Len), to)
		if lo < hi {
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
