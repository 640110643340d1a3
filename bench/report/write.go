package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The contenders whose columns have short titles.
const (
	Prometheus      = "Prometheus"
	PromwarpFirst   = "promwarp first"    // with nothing cached
	Promwarp        = "promwarp repeated" // with the query's samples cached
	VictoriaMetrics = "VictoriaMetrics"
)

var titles = map[string]string{PromwarpFirst: "first ms", Promwarp: "repeated ms", VictoriaMetrics: "VM ms"}

// Tables are all tables of the result, those of each stage after each other.
func (r *Result) Tables() (all []*Table) {
	for _, s := range r.Stages {
		if len(s.Rows) == 0 {
			continue
		}
		all = append(all, s.grid())
		if len(s.Pairs) > 0 {
			all = append(all, s.ratios())
		}
		if s.Details {
			all = append(all, s.details())
		}
	}
	return all
}

// Notes are the lines below the tables.
func (r *Result) Notes() []string {
	lines := []string{fmt.Sprintf("%s, %d cores, %s; medians, over HTTP; %.0f s in all", r.Setup.Processor, r.Setup.Cores, r.Setup.Date, r.Wall)}
	if r.Setup.Work {
		lines = append(lines, "times are what servers ran on cores")
	}
	for _, name := range sortedKeys(r.Setup.Versions) {
		lines = append(lines, name+" "+r.Setup.Versions[name])
	}
	for _, s := range r.Stages {
		lines = append(lines, s.notes()...)
	}
	return append(lines, fmt.Sprintf("answers that are not Prometheus's, or failed: %d", r.Failed()))
}

func (s *Stage) notes() []string {
	lines := []string{fmt.Sprintf("%s: %d series, %d samples, %d h up to %s; at most %d rounds; %d of %d answered wrongly, or failed",
		s.Name, s.Data.Series, s.Data.Samples, s.Hours, time.Unix(s.End, 0).UTC().Format(time.RFC3339), s.Rounds, s.failed(), len(s.Rows))}
	for _, name := range sortedKeys(s.PeakRSS) {
		lines = append(lines, fmt.Sprintf("%s: peak resident memory of %s: %.0f MiB", s.Name, name, float64(s.PeakRSS[name])/(1<<20)))
	}
	for _, row := range s.Rows {
		for what, text := range map[string]string{"": row.Error, "not Prometheus's answer: ": row.Wrong} {
			if text != "" {
				lines = append(lines, s.Name+": "+row.Name+": "+what+text)
			}
		}
	}
	return lines
}

// grid is a row a question.
func (s *Stage) grid() *Table {
	t := &Table{Title: "Stage " + s.Name + ", ms:", Left: 2, Head: []string{"query", "range", "points"}}
	means := []string{"geometric mean", "", ""}
	for _, c := range s.Contenders {
		t.Head = append(t.Head, cmp.Or(titles[c], c+" ms"))
		means = append(means, "")
	}
	pairs := slices.DeleteFunc(slices.Clone(s.Pairs), func(p Pair) bool { return s.ratio(p).n == 0 })
	for _, p := range pairs {
		t.Head = append(t.Head, p.Title)
		means = append(means, Number(s.ratio(p).mean))
	}
	t.Head = append(t.Head, "answers")
	for _, row := range s.Rows {
		during := ""
		if row.Range != "" {
			during = row.Range + "@" + row.Step
		}
		cells := []string{"`" + row.Name + "`", during, strconv.Itoa(row.Points)}
		for _, c := range s.Contenders {
			cells = append(cells, milliseconds(row.Costs[c].Median))
		}
		for _, p := range pairs {
			cells = append(cells, strings.TrimSuffix(Times(row.Costs[p.Base].Median, row.Costs[p.Contender].Median), "×"))
		}
		t.Add(append(cells, row.verdict())...)
	}
	if len(pairs) > 0 {
		t.Add(append(means, "")...)
	}
	return t
}

// verdict says of the answers whether they are Prometheus's, nothing where they are not compared.
func (row *Row) verdict() string {
	switch {
	case row.Error != "":
		return "ERROR"
	case row.Wrong != "":
		return "DIFFER"
	case row.Other != "":
		return row.Note + " but VM's"
	}
	return row.Note
}

// ratios is a row a pair of contenders.
func (s *Stage) ratios() *Table {
	t := &Table{Title: "Geometric means:", Left: 1, Head: []string{"", "queries", "ms", "ms", "mean", "least", "of", "most", "of"}}
	for _, p := range s.Pairs {
		if r := s.ratio(p); r.n > 0 {
			t.Add(p.Base+" over "+p.Contender, strconv.Itoa(r.n), milliseconds(r.baseMean), milliseconds(r.itsMean),
				Times(r.mean, 1), Times(r.least, 1), r.leastOf, Times(r.most, 1), r.mostOf)
		}
	}
	return t
}

// details is a row a question and contender.
func (s *Stage) details() *Table {
	t := &Table{Title: "What an answer took:", Left: 2, Head: []string{"query", "contender", "first byte ms", "median ms", "99th percentile", "CPU ms", "CPU behind ms", "sent MB", "read MB", "answers/s"}}
	megabytes := func(n int64) string { return Number(float64(n) / 1e6) }
	for _, row := range s.Rows {
		for _, name := range s.Contenders {
			c, ok := row.Costs[name]
			if !ok {
				continue
			}
			t.Add("`"+row.Name+"`", name, milliseconds(c.First), milliseconds(c.Median), milliseconds(c.percentile(0.99)), milliseconds(c.CPU), milliseconds(c.Behind),
				megabytes(c.Sent), megabytes(c.Read), Number(c.PerSecond))
		}
	}
	return t
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

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
