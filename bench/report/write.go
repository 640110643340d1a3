package report

import (
	"cmp"
	"fmt"
	"maps"
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
		if s.Worst {
			all = append(all, s.worst())
			continue
		}
		all = append(all, s.grid())
		if len(s.Pairs) > 0 {
			all = append(all, s.ratios())
		}
		if sums := s.dashboards(); len(sums.Rows) > 0 {
			all = append(all, sums.grid())
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
	for _, name := range SortedKeys(r.Setup.Versions) {
		lines = append(lines, name+" "+r.Setup.Versions[name])
	}
	if r.Setup.Commit != "" {
		lines = append(lines, "promwarp's commit "+r.Setup.Commit)
	}
	for _, s := range r.Stages {
		lines = append(lines, s.notes()...)
	}
	return append(lines, fmt.Sprintf("answers that are not Prometheus's, or failed: %d", r.Failed()))
}

func (s *Stage) notes() []string {
	lines := []string{fmt.Sprintf("%s: %d series, %d samples, %d h up to %s; at most %d rounds; %d of %d answered wrongly, or failed",
		s.Name, s.Data.Series, s.Data.Samples, s.Hours, time.Unix(s.End, 0).UTC().Format(time.RFC3339), s.Rounds, s.failed(), len(s.Rows))}
	for _, name := range SortedKeys(s.PeakRSS) {
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

// SortedKeys are the keys of a map in their order.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
