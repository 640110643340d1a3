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
	"math"
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

// spans calls f for stretches of n times, in order, until f fails: those during which the same columns
// have cells, and some has. at[k] is the place of the first among the values of column k, or -1; f may
// change it.
func (s *Series) spans(f func(time, n int32, at []int) error) error {
	at, next := make([]int, len(s.Cells)), make([]cursor, len(s.Cells))
	for {
		time, end := int32(math.MaxInt32), int32(math.MaxInt32)
		for k := range next {
			if first, _, ok := next[k].rest(&s.Cells[k]); ok {
				time = min(time, first)
			}
		}
		if time == math.MaxInt32 {
			return nil
		}
		for k := range next {
			at[k] = -1
			first, past, ok := next[k].rest(&s.Cells[k])
			switch {
			case ok && first == time:
				at[k], end = next[k].value, min(end, past)
			case ok:
				end = min(end, first)
			}
		}
		for k := range next {
			if at[k] >= 0 {
				next[k].skip(&s.Cells[k], end-time)
			}
		}
		if err := f(time, end-time, at); err != nil {
			return err
		}
	}
}

// rows calls f for each time at which some column has a cell, as spans does.
func (s *Series) rows(f func(time int32, at []int) error) error {
	return s.spans(func(time, n int32, at []int) error {
		for i := range n {
			if err := f(time+i, at); err != nil {
				return err
			}
			for k := range at {
				if at[k] >= 0 {
					at[k]++
				}
			}
		}
		return nil
	})
}

// cursor is a place in cells: before a value.
type cursor struct {
	run   int
	in    int32 // the run
	value int
}

// rest is what is left of the run: the time of the next cell, and that past the last one.
func (c *cursor) rest(of *Cells) (first, past int32, ok bool) {
	if c.run == len(of.Runs) {
		return 0, 0, false
	}
	run := of.Runs[c.run]
	return run.First + c.in, run.First + run.Len, true
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
		runs = dense.AppendRun(runs, plan.Run{First: time, Len: 1})
	}
	return runs
}
