// Package measure is what the benchmarks of GPUs share: taking times, running on
// every core, tables.
package measure

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Median calls f once to warm up, unless that took more than the budget, and then up
// to rounds times within the budget. It returns the median of how long it took, in ms.
func Median(rounds int, budget time.Duration, f func() error) (float64, error) {
	var took []float64
	begin := time.Now()
	for n := 0; n <= rounds; n++ {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/1e6)
		if time.Since(begin) > budget {
			break
		}
	}
	if len(took) > 1 {
		took = took[1:]
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// Table is a table of text.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Add adds a row of cells.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write writes the table as Markdown whose columns are aligned.
func (t *Table) Write(w io.Writer) error {
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i := range t.Head {
			cell := ""
			if i < len(row) {
				cell = row[i]
			}
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", width[i]-len([]rune(cell))))
		}
		b.WriteString("|\n")
	}
	fmt.Fprintf(&b, "\n%s\n\n", t.Title)
	line(t.Head)
	b.WriteString(strings.Repeat("| --- ", len(t.Head)) + "|\n")
	for _, row := range t.Rows {
		line(row)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Number is a number for reading, of about three digits, or nothing for 0.
func Number(v float64) string {
	switch {
	case v == 0:
		return ""
	case v < 0.095:
		return fmt.Sprintf("%.3f", v)
	case v < 9.95:
		return fmt.Sprintf("%.2f", v)
	case v < 99.5:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Times is how many times as large a is as b, for reading, or nothing where one is
// not known.
func Times(a, b float64) string {
	if a == 0 || b == 0 {
		return ""
	}
	return Number(a/b) + "×"
}
