package table

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/resample"
)

// wideCells is how many cells a batch of the wide layout has at most, 8 bytes each, unless one row has
// more. Tests lower it.
var wideCells = 1 << 18

// wide makes batches of a table's wide layout: a row for each time at which a series has a cell,
// and a column for each series and column that has one.
type wide struct {
	t       *Table
	columns []wideColumn
	places  []int32 // of rows among the table's times
}

// wideColumn is a column of a series.
type wideColumn struct {
	cells  dense.RunCursor
	labels labels.Labels
	of     string // the column of the table, nothing if it has only one
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
			c := wideColumn{cells: dense.RunCursor{Row: &s.Cells[k]}, labels: s.Labels}
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
			for _, run := range s.Cells[k].Runs {
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
	for time, is := range used {
		if is {
			w.places = append(w.places, int32(time))
		}
	}
	columns := 1 + len(w.columns)
	l.all, l.rows, l.write = len(w.places), max(1, min(len(w.places), wideCells/columns)), w.write
	l.bytes = 9*int64(l.rows)*int64(columns) + 300*int64(columns) + 12*int64(len(w.places))
	return l, nil
}

// write writes all rows.
func (w *wide) write(to *batches) error {
	times := make([]int64, 0, to.rows)
	for places := w.places; len(places) > 0; {
		n := min(len(places), to.room())
		times = times[:0]
		for _, place := range places[:n] {
			times = append(times, w.t.Times[place])
		}
		to.appendTimes(times)
		for k := range w.columns {
			w.append(to, k, places[:n])
		}
		if err := to.flush(); err != nil {
			return err
		}
		places = places[n:]
	}
	return nil
}

// append appends some rows of a column. The times of a run are those of rows one after the other.
func (w *wide) append(to *batches, column int, places []int32) {
	done := 0
	w.columns[column].cells.Each(places[0], places[len(places)-1]+1, func(time int32, values []float64) {
		row, _ := slices.BinarySearch(places[done:], time)
		to.values[column].AppendNulls(row)
		to.appendValues(column, values, w.t.Nullable)
		done += row + len(values)
	})
	to.values[column].AppendNulls(len(places) - done)
}
