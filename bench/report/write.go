package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes the table for a terminal, and what there is to say besides.
func (r *Result) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range r.grid() {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.notes(), "\n"))
	return err
}

// WriteMarkdown writes the table in Markdown, the queries below it.
func (r *Result) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	rows := r.grid()
	code(rows[1 : len(rows)-1])
	Markdown(&b, rows, 2)
	b.WriteByte('\n')
	for _, note := range r.notes() {
		b.WriteString("- " + note + "\n")
	}
	b.WriteString("\nThe queries:\n\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "- `%s`: `%s`\n", row.Name, row.Expr)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown writes a header and rows as a table whose columns are flush right but for
// the first few.
func Markdown(b *strings.Builder, rows [][]string, left int) {
	for i, row := range rows {
		for _, cell := range row {
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", left) + strings.Repeat(" ---: |", len(row)-left) + "\n")
		}
	}
}

// code marks the first cell of each row as code.
func code(rows [][]string) {
	for _, row := range rows {
		row[0] = "`" + row[0] + "`"
	}
}

// notes are the lines below the table.
func (r *Result) notes() []string {
	s := r.Setup
	lines := []string{
		fmt.Sprintf("data: %d series, %d samples, %d stale markers, %d h, seed %d, up to %s", s.Data.Series, s.Data.Samples, s.Data.StaleMarkers, s.Hours, s.Seed, time.Unix(s.End, 0).UTC().Format(time.RFC3339)),
		fmt.Sprintf("medians of at most %d rounds on %d cores, over HTTP; %.0f s in all", s.Rounds, s.Cores, r.WallTime),
	}
	if few := r.fewer(); len(few) > 0 {
		lines = append(lines, "fewer rounds, for they took long: "+strings.Join(few, ", "))
	}
	for _, x := range r.Ratios {
		lines = append(lines, fmt.Sprintf("%s over %s: geometric mean %s× of %d queries, least %s× (%s), most %s× (%s)", x.Contender, x.Base, Times(x.Mean), x.Queries, Times(x.Least), x.LeastOf, Times(x.Most), x.MostOf))
	}
	lines = append(lines, fmt.Sprintf("answers of promwarp that are not Prometheus's, or failed: %d of %d", r.Failed(), len(r.Rows)))
	if r.has(VictoriaMetrics) {
		lines = append(lines, fmt.Sprintf("answers of VictoriaMetrics that are not Prometheus's: %d of %d", r.Others(), len(r.Rows)))
	}
	for _, name := range sortedKeys(r.PeakRSS) {
		lines = append(lines, fmt.Sprintf("peak resident memory of %s: %.0f MiB", name, float64(r.PeakRSS[name])/(1<<20)))
	}
	for _, name := range sortedKeys(s.Versions) {
		lines = append(lines, name+" "+s.Versions[name])
	}
	for _, row := range r.Rows {
		switch {
		case row.Error != "":
			lines = append(lines, row.Name+": "+row.Error)
		case row.Wrong != nil:
			lines = append(lines, row.Name+": promwarp's answer: "+row.Wrong.First)
		}
	}
	return lines
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fewer are the queries that did not get all rounds, and how many they got.
func (r *Result) fewer() (few []string) {
	for _, row := range r.Rows {
		if n := len(row.Timings[Prometheus].All); n > 0 && n < r.Setup.Rounds {
			few = append(few, fmt.Sprintf("%s (%d)", row.Name, n))
		}
	}
	return few
}
