package table

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/resample"
)

// wideCells is how many cells a batch of the wide layout has at most, 8 bytes each, unless one row has
// more. Tests lower it.
var wideCells = 1 << 20

// wide makes batches of a table's wide layout: a row for each time at which a series has a cell,
// and a column for each series and column that has one.
type wide struct {
	t       *Table
	columns []wideColumn
	times   []int64 // of rows
	rank    []int32 // which row has a time of the table, -1 for none; nil where rows are the times
}

// wideColumn is a column of a series.
type wideColumn struct {
	*Cells
	labels labels.Labels
	of     string // the column of the table, nothing if it has only one
	run    int    // the first that is not wholly written
	value  int    // of it the first
}

// title is the name of the column: the column of the table and the series, as PromQL writes it.
func (c *wideColumn) title() string {
	name := c.labels.Get(model.MetricNameLabel)
	rest := c.labels.MatchLabels(false, model.MetricNameLabel)
	if !rest.IsEmpty() {
		name += rest.String()
	}
	switch {
	case name == "" && c.of == "":
		return ValueColumn
	case name == "":
		return c.of
	case c.of == "":
		return name
	}
	return c.of + " " + name
}

// wide is the wide layout. The error of a table with more columns than most is a *resample.Error.
func (t *Table) wide(most int) (*layout, error) {
	l, w := &layout{}, &wide{t: t}
	used := make([]bool, len(t.Times))
	n := 0
	for i := range t.Series {
		s := &t.Series[i]
		for k := range s.Cells {
			if len(s.Cells[k].Values) == 0 {
				continue
			}
			c := wideColumn{Cells: &s.Cells[k], labels: s.Labels}
			if !t.Single {
				c.of = t.Columns[k]
			}
			w.columns = append(w.columns, c)
			if len(w.columns) > most {
				return nil, &resample.Error{
					Code: resample.CodeTooManyColumns, Field: "layout", Text: fmt.Sprintf("the answer has more than %d columns", most),
					Hint: "use layout=long, or ask for fewer series",
				}
			}
			for _, run := range c.Runs {
				if n == len(used) {
					break
				}
				for time := run.First; time < run.First+run.Len; time++ {
					if !used[time] {
						used[time] = true
						n++
					}
				}
			}
		}
	}
	names := []string{TimeColumn}
	for k := range w.columns {
		c := &w.columns[k]
		names = append(names, c.title())
		metadata := arrow.NewMetadata([]string{"labels", "column"}, []string{string(encode.AppendLabels(nil, c.labels)), c.of})
		l.fields = append(l.fields, valueField(c.title(), metadata))
	}
	if err := checkColumns(names); err != nil {
		return nil, err
	}
	w.times = t.Times
	if n < len(t.Times) {
		w.times, w.rank = make([]int64, 0, n), make([]int32, len(t.Times))
		for time, is := range used {
			w.rank[time] = -1
			if is {
				w.rank[time] = int32(len(w.times))
				w.times = append(w.times, t.Times[time])
			}
		}
	}
	columns := 1 + len(w.columns)
	l.all, l.rows, l.write = len(w.times), max(1, min(len(w.times), wideCells/columns)), w.write
	l.bytes = 9*int64(l.rows)*int64(columns) + 300*int64(columns) + 12*int64(len(w.times))
	return l, nil
}

// write writes all rows.
func (w *wide) write(to *batches) error {
	for first := 0; first < len(w.times); first += to.rows {
		end := first + min(len(w.times)-first, to.room())
		to.appendTimes(w.times[first:end])
		for k := range w.columns {
			w.append(to, k, first, end)
		}
		if err := to.flush(); err != nil {
			return err
		}
	}
	return nil
}

// row is which row has a time of the table.
func (w *wide) row(time int32) int {
	if w.rank == nil {
		return int(time)
	}
	return int(w.rank[time])
}

// append appends the rows from first to before end of a column. The times of a run are those of rows one
// after the other.
func (w *wide) append(to *batches, column, first, end int) {
	c, done := &w.columns[column], first
	for ; c.run < len(c.Runs); c.run++ {
		length := int(c.Runs[c.run].Len)
		row := w.row(c.Runs[c.run].First)
		if from, past := max(row, first), min(row+length, end); from < past {
			to.values[column].AppendNulls(from - done)
			to.appendValues(column, c.Values[c.value+from-row:c.value+past-row], w.t.Nullable)
			done = past
		}
		if row+length > end {
			break // the next batch goes on with it
		}
		c.value += length
	}
	to.values[column].AppendNulls(end - done)
}
