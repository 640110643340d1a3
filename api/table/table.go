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
// Text is written row by row. Arrow and Parquet are written by record batches of a bounded number of
// cells.
//
// Start with Format.Answer.
package table

import (
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
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

	cells     []*Cells // scratch memory
	stretches dense.Stretches
}

// Series are the cells of one set of labels.
type Series struct {
	Labels labels.Labels
	Cells  []Cells // of each column of the table; a column may have none
}

// Cells are the values of a column, in order of time. Runs say which of the table's times have one.
type Cells = plan.Row

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

// spans calls f for stretches of n times, in order, until f fails: those during which the same
// columns have cells, and some has. values are those of each column, or nil; f may change the list.
func (t *Table) spans(s *Series, f func(time, n int32, values [][]float64) error) error {
	t.cells = t.cells[:0]
	for k := range s.Cells {
		t.cells = append(t.cells, &s.Cells[k])
	}
	return t.stretches.Walk(t.cells, f)
}

// rows calls f for each time at which some column has a cell, which is value i of each.
func (t *Table) rows(s *Series, f func(time int32, values [][]float64, i int) error) error {
	return t.spans(s, func(time, n int32, values [][]float64) error {
		for i := range n {
			if err := f(time+i, values, int(i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// RunsOf are the runs of times, each a place among a table's times, in order.
func RunsOf(times []int32) (runs []plan.Run) {
	for _, time := range times {
		runs = plan.AppendRun(runs, plan.Run{First: time, Len: 1})
	}
	return runs
}
