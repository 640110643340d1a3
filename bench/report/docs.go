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

// docsLeftOut are the columns that a page of documentation does not show.
var docsLeftOut = []string{"VM ×", "first/VM ×", "answers"}

// WriteDocs puts the tables of a stage in the place of those of an earlier run in a file that has
// the marks. Otherwise the file stays as it is.
func (r *Result) WriteDocs(stage, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := replaced(string(b), r.docs(r.Stage(stage)))
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
func (r *Result) docs(s *Stage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Data up to %s: %d series, %.3g M samples, %d h. Medians of at most %d rounds on %d cores, %.0f s in all.\n\n",
		time.Unix(s.End, 0).UTC().Format(time.DateOnly), s.Data.Series, float64(s.Data.Samples)/1e6, s.Hours, s.Rounds, r.Setup.Cores, r.Wall)
	ratios := Table{Left: 1, Head: []string{"", "geometric mean", "least", "most"}}
	for _, p := range s.Pairs {
		if x := s.ratio(p); x.n > 0 && p.Title != "first/VM ×" {
			ratios.Add(p.Contender+", against "+p.Base, Times(x.mean, 1), Times(x.least, 1), Times(x.most, 1))
		}
	}
	b.WriteString(ratios.Markdown())

	others := 0
	for _, row := range s.Rows {
		if row.Other != "" {
			others++
		}
	}
	fmt.Fprintf(&b, "\n%d of promwarp's %d answers are Prometheus's; %d of VictoriaMetrics's are not.\nPeak resident memory:", len(s.Rows)-s.failed(), len(s.Rows), others)
	sep := " "
	for _, name := range sortedKeys(s.PeakRSS) {
		fmt.Fprintf(&b, "%s%s %.0f MiB", sep, name, float64(s.PeakRSS[name])/(1<<20))
		sep = ", "
	}
	b.WriteString(".\n\n")

	all := s.grid()
	shown := Table{Left: all.Left}
	for i, row := range append([][]string{all.Head}, all.Rows...) {
		var cells []string
		for k, cell := range row {
			if !slices.Contains(docsLeftOut, all.Head[k]) {
				cells = append(cells, cell)
			}
		}
		if i == 0 {
			shown.Head = cells
		} else {
			shown.Add(cells...)
		}
	}
	b.WriteString(shown.Markdown())
	return b.String()
}
