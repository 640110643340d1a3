package report

import (
	"fmt"
	"io"
	"strings"
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
	width := make([]int, len(t.Head))
	for _, row := range t.lines() {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	aligned := *t
	aligned.Head, aligned.Rows = nil, nil
	for n, row := range t.lines() {
		cells := make([]string, len(t.Head))
		for i := range cells {
			cell := ""
			if i < len(row) {
				cell = row[i]
			}
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if cells[i] = cell + pad; i >= t.Left {
				cells[i] = pad + cell
			}
		}
		if n == 0 {
			aligned.Head = cells
		} else {
			aligned.Rows = append(aligned.Rows, cells)
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s", t.Title, aligned.Markdown())
	return err
}

func (t *Table) lines() [][]string { return append([][]string{t.Head}, t.Rows...) }

// Markdown is the table without its title.
func (t *Table) Markdown() string {
	var b strings.Builder
	for i, row := range t.lines() {
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
