package table

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/resample"
)

// maxWide is the most columns of the wide layout, by format.
const (
	maxWideArrow   = 10_000
	maxWideParquet = 1_000
)

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
	name   string
	run    int // the first that is not wholly written
	value  int // of it the first
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

// newWide lays out a table. The error of one with more columns than most is a *resample.Error.
func newWide(t *Table, most int) (*wide, error) {
	if err := t.checkNumbers(); err != nil {
		return nil, err
	}
	w := &wide{t: t}
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
		w.columns[k].name = w.columns[k].title()
		names = append(names, w.columns[k].name)
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
	return w, nil
}

// rows is how many rows a batch has.
func (w *wide) rows() int { return max(1, min(len(w.times), wideCells/(1+len(w.columns)))) }

// bytes is about the memory of the batches.
func (w *wide) bytes() int64 {
	return 9*int64(w.rows())*int64(1+len(w.columns)) + 300*int64(len(w.columns)) + 12*int64(len(w.times))
}

// write writes all rows.
func (w *wide) write(to batchWriter) error {
	b := batch{columns: make([]floats, len(w.columns))}
	buffers := make([][]float64, len(w.columns))
	for first := 0; first < len(w.times); first += w.rows() {
		end := min(first+w.rows(), len(w.times))
		b.times = w.times[first:end]
		for k := range w.columns {
			f := &b.columns[k]
			f.n = 0
			if f.values = w.columns[k].direct(w, first, end); f.values == nil {
				buffers[k] = slices.Grow(buffers[k][:0], end-first)[:end-first]
				f.values = buffers[k]
				w.columns[k].fill(w, f, first, end)
			} else if w.t.Nullable {
				f.setStale(0, f.values)
			}
		}
		if err := to.write(&b); err != nil {
			return err
		}
	}
	return to.close()
}

// row is which row has a time of the table.
func (w *wide) row(time int32) int {
	if w.rank == nil {
		return int(time)
	}
	return int(w.rank[time])
}

// direct are the values of rows from first to before end where they lie in the table as they are in the
// column, or nil.
func (c *wideColumn) direct(w *wide, first, end int) []float64 {
	for c.run < len(c.Runs) && w.row(c.Runs[c.run].First)+int(c.Runs[c.run].Len) <= first {
		c.value += int(c.Runs[c.run].Len)
		c.run++
	}
	if c.run == len(c.Runs) {
		return nil
	}
	row := w.row(c.Runs[c.run].First)
	if row > first || row+int(c.Runs[c.run].Len) < end {
		return nil
	}
	return c.Values[c.value+first-row : c.value+end-row]
}

// fill puts the values of rows from first to before end where they belong. The times of a run are those
// of rows one after the other.
func (c *wideColumn) fill(w *wide, f *floats, first, end int) {
	clear(f.values)
	done := first
	for ; c.run < len(c.Runs); c.run++ {
		length := int(c.Runs[c.run].Len)
		row := w.row(c.Runs[c.run].First)
		from, to := max(row, first), min(row+length, end)
		if from < to {
			f.set(done-first, from-first, true)
			values := c.Values[c.value+from-row : c.value+to-row]
			copy(f.values[from-first:], values)
			if w.t.Nullable {
				f.setStale(from-first, values)
			} else {
				f.set(from-first, to-first, false)
			}
			done = to
		}
		if row+length > end {
			break // the next batch goes on with it
		}
		c.value += length
	}
	f.set(done-first, end-first, true)
}
