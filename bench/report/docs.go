package report

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The marks between which a page of documentation has the tables of the last run.
const (
	docsBegin = "<!-- make bench writes what follows -->\n"
	docsEnd   = "<!-- until here -->\n"
)

// docsColumns are the columns that a page of documentation shows.
var docsColumns = []string{
	"query", "range", "points", "Prometheus ms", "first ms", "repeated ms", "VM ms", "first ×", "repeated ×", "repeated/VM ×",
}

// WriteDocs puts the tables in the place of those of an earlier run in a file that has
// the marks. Otherwise the file stays as it is.
func (r *Result) WriteDocs(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := replaced(string(b), r.docs())
	if err != nil {
		return fmt.Errorf("%s %w", file, err)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// replaced is text with other words between the marks.
func replaced(text, words string) (string, error) {
	if strings.Count(text, docsBegin) != 1 || strings.Count(text, docsEnd) != 1 {
		return "", fmt.Errorf("does not have the lines %q and %q once each", docsBegin[:len(docsBegin)-1], docsEnd[:len(docsEnd)-1])
	}
	before, rest, _ := strings.Cut(text, docsBegin)
	_, after, ok := strings.Cut(rest, docsEnd)
	if !ok {
		return "", errors.New("has the marks in the wrong order")
	}
	return before + docsBegin + words + docsEnd + after, nil
}

// docs is what comes between the marks: what was compared, the ratios, and the queries.
func (r *Result) docs() string {
	var b strings.Builder
	s := r.Setup
	fmt.Fprintf(&b, "Data up to %s: %d series, %.3g M samples, %d h. Medians of at most %d rounds on %d cores, %.0f s in all.\n\n",
		time.Unix(s.End, 0).UTC().Format(time.DateOnly), s.Data.Series, float64(s.Data.Samples)/1e6, s.Hours, s.Rounds, s.Cores, r.WallTime)

	ratios := [][]string{{"", "geometric mean", "least", "most"}}
	for _, x := range r.Ratios {
		if slices.Contains(docsColumns, titleOf(x)) || x.Contender == VictoriaMetrics {
			ratios = append(ratios, []string{title(x.Contender) + ", against " + title(x.Base), Times(x.Mean) + "×", Times(x.Least) + "×", Times(x.Most) + "×"})
		}
	}
	Markdown(&b, ratios, 1)

	fmt.Fprintf(&b, "\n%d of promwarp's %d answers are Prometheus's; %d of VictoriaMetrics's are not.\nPeak resident memory:", len(r.Rows)-r.Failed(), len(r.Rows), r.Others())
	sep := " "
	for _, name := range sortedKeys(r.PeakRSS) {
		fmt.Fprintf(&b, "%s%s %.0f MiB", sep, name, float64(r.PeakRSS[name])/(1<<20))
		sep = ", "
	}
	b.WriteString(".\n\n")

	all := r.grid()
	var shown [][]string
	for _, row := range all {
		var cells []string
		for k, cell := range row {
			if slices.Contains(docsColumns, all[0][k]) {
				cells = append(cells, cell)
			}
		}
		shown = append(shown, cells)
	}
	code(shown[1 : len(shown)-1])
	Markdown(&b, shown, 2)
	return b.String()
}

// titleOf is the title of a ratio's column.
func titleOf(x Ratio) string {
	for _, c := range columns {
		if c.base == x.Base && c.contender == x.Contender {
			return c.title
		}
	}
	return ""
}

// title is a contender's name in a sentence.
func title(contender string) string {
	switch contender {
	case Prometheus:
		return "Prometheus"
	case VictoriaMetrics:
		return "VictoriaMetrics"
	}
	return contender
}
