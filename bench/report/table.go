package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is a table of text: a head, and rows of as many cells or fewer.
type Table struct {
	Title string
	Left  int // columns that are flush left, the first ones
	Head  []string
	Rows  [][]string
}

// Add adds a row of cells.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write writes the table as Markdown whose columns are aligned, for a terminal.
func (t *Table) Write(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n\n", t.Title)
	aligned := tabwriter.NewWriter(w, 0, 0, 0, ' ', 0)
	fmt.Fprint(aligned, strings.ReplaceAll(t.Markdown(), " |", "\t |"))
	return aligned.Flush()
}

// Markdown is the table without its title.
func (t *Table) Markdown() string {
	var b strings.Builder
	for i, row := range append([][]string{t.Head}, t.Rows...) {
		for _, cell := range row {
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", t.Left) + strings.Repeat(" ---: |", len(row)-t.Left) + "\n")
		}
	}
	return b.String()
}
