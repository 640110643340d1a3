// Package table writes answers as tables: CSV, NDJSON, Arrow streams and Parquet files.
//
// A Table is made of a PromQL answer (Of) or of a resample request's (api/resampled). It does not
// copy values: the cells of a series are the runs of times that it has values at, and the values
// as they lie in the matrix.
//
//	Times    10:00 10:05 10:10 10:15
//	Series   {job="a"}   mean  runs 0+2, 3+1  values 1.5 2.5 4.5
//	                     max   runs 0+2, 3+1  values 2   3   5
//
//	long  time   job  mean  max      wide  time   mean {job="a"}  max {job="a"}
//	      10:00  a    1.5   2              10:00  1.5             2
//	      10:05  a    2.5   3              10:05  2.5             3
//	      10:15  a    4.5   5              10:15  4.5             5
//
// Text is written row by row. Arrow and Parquet are written batch by batch: batches have a bounded
// number of cells, and refer to the values of the matrix where those lie as the batch needs them.
//
// Start with Format.Answer.
package table

import (
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// Table is an answer as a table: a row for each time at which a series has a cell.
type Table struct {
	Columns  []string // of values, in order
	Times    []int64  // ms since the epoch, in order; no two alike
	Series   []Series // in the order of rows
	Warnings []string
	// Nullable says that cells whose value is a stale marker are null.
	Nullable bool
	// Single says that there is one column, which has no name of its own: a PromQL answer.
	Single bool
	// Text is the value of the only cell if that is a string.
	Text *string
	// Copied is the memory in bytes of what the table does not share with the answer.
	Copied int64
	// Watch ends what goes over all series before anything is written.
	Watch parallel.Watch
}

// Series are the cells of one set of labels.
type Series struct {
	Labels labels.Labels
	Cells  []Cells // of each column of the table; a column may have none
}

// Cells are the values of a column, in order of time. Runs say which of the table's times have one.
type Cells struct {
	Runs   []plan.Run
	Values []float64
}

// What a series of one column takes, beside its runs, and a run, in bytes.
const (
	SeriesBytes = int64(unsafe.Sizeof(Series{}) + unsafe.Sizeof(Cells{}))
	RunBytes    = int64(unsafe.Sizeof(plan.Run{}))
)

// names are the names of all labels, in order.
func (t *Table) names() (names []string) {
	seen := map[string]bool{}
	for i := range t.Series {
		if t.Watch.Err() != nil {
			break
		}
		t.Series[i].Labels.Range(func(l labels.Label) {
			if !seen[l.Name] {
				seen[l.Name] = true
				names = append(names, l.Name)
			}
		})
	}
	slices.Sort(names)
	return names
}

// aligned reports whether all columns have cells at the same times.
func (s *Series) aligned() bool {
	for k := 1; k < len(s.Cells); k++ {
		a, b := s.Cells[0].Runs, s.Cells[k].Runs
		if len(a) != len(b) || len(a) > 0 && &a[0] != &b[0] && !slices.Equal(a, b) {
			return false
		}
	}
	return true
}

// rows calls f for each time at which some column has a cell, in order, until f fails. at[k] is
// the place of the cell among the values of column k, or -1.
func (s *Series) rows(f func(time int32, at []int) error) error {
	at := make([]int, len(s.Cells))
	if s.aligned() {
		n := 0
		for _, run := range s.Cells[0].Runs {
			for time := run.First; time < run.First+run.Len; time++ {
				for k := range at {
					at[k] = n
				}
				n++
				if err := f(time, at); err != nil {
					return err
				}
			}
		}
		return nil
	}
	next := make([]cursor, len(s.Cells))
	for {
		time, more := int32(0), false
		for k := range next {
			if first, ok := next[k].time(&s.Cells[k]); ok && (!more || first < time) {
				time, more = first, true
			}
		}
		if !more {
			return nil
		}
		for k := range next {
			at[k] = -1
			if first, ok := next[k].time(&s.Cells[k]); ok && first == time {
				at[k] = next[k].value
				next[k].skip(&s.Cells[k], 1)
			}
		}
		if err := f(time, at); err != nil {
			return err
		}
	}
}

// cursor is a place in cells: before a value.
type cursor struct {
	run   int
	in    int32 // the run
	value int
}

// time is which of the table's times the next cell has.
func (c *cursor) time(of *Cells) (time int32, ok bool) {
	if c.run == len(of.Runs) {
		return 0, false
	}
	return of.Runs[c.run].First + c.in, true
}

// skip goes over n cells, which are of one run.
func (c *cursor) skip(of *Cells, n int32) {
	c.in += n
	c.value += int(n)
	if c.in == of.Runs[c.run].Len {
		c.run, c.in = c.run+1, 0
	}
}

// RunsOf are the runs of times, each a place among a table's times, in order.
func RunsOf(times []int32) (runs []plan.Run) {
	for _, time := range times {
		if n := len(runs); n > 0 && runs[n-1].First+runs[n-1].Len == time {
			runs[n-1].Len++
			continue
		}
		runs = append(runs, plan.Run{First: time, Len: 1})
	}
	return runs
}
