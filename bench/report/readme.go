package report

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// dashboards is a stage with a row for each dashboard: what all of its panels take, one after the
// other. The names of its questions begin with its own and a colon.
func (s *Stage) dashboards() *Stage {
	sums := &Stage{Name: s.Name + ", all panels of a dashboard", Contenders: s.Contenders, Pairs: s.Pairs}
	for _, row := range s.Rows {
		name, _, ok := strings.Cut(row.Name, ": ")
		if !ok {
			continue
		}
		sum := sums.Row(name)
		sum.Points += row.Points
		for contender, cost := range row.Costs {
			total := sum.Costs[contender]
			total.Median += cost.Median
			sum.Costs[contender] = total
		}
	}
	return sums
}

// span is the time that the data of a stage cover.
func (s *Stage) span() string {
	if s.Hours < 48 {
		return fmt.Sprintf("%d h", s.Hours)
	}
	return fmt.Sprintf("%d days", s.Hours/24)
}

// The lines of a page between which WriteFigures writes.
const figuresBegin, figuresEnd = "<!-- figures: make readme-figures -->\n", "<!-- end of figures -->\n"

// WriteFigures writes what the stages dashboards and exporters found into a page, between two marks.
func (r *Result) WriteFigures(page string) error {
	if r.Setup.Commit == "" {
		return errors.New("the result does not say which commit was measured: measure a promwarp that was built in a checkout, whose promwarp version shows a revision")
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), figuresBegin)
	_, after, ends := strings.Cut(rest, figuresEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %s and %s", page, strings.TrimSpace(figuresBegin), strings.TrimSpace(figuresEnd))
	}
	t := &Table{Left: 2, Head: []string{"measured", "result"}}
	var peaks []string
	for _, s := range r.Stages {
		if s.Name != "dashboards" && s.Name != "exporters" {
			continue
		}
		for _, row := range s.ratios().Rows {
			t.Add(fmt.Sprintf("%s queries over %s, %.1f M samples: %s", row[1], s.span(), float64(s.Data.Samples)/1e6, row[0]),
				fmt.Sprintf("%s on average, %s at least, %s at most", row[4], row[5], row[7]))
		}
		sums := s.dashboards()
		for _, row := range sums.Rows {
			var took []string
			for _, name := range sums.Contenders {
				took = append(took, fmt.Sprintf("%s %s ms", name, milliseconds(row.Costs[name].Median)))
			}
			t.Add(fmt.Sprintf("dashboard `%s` over %s, panel after panel", row.Name, s.span()), strings.Join(took, ", "))
		}
		for _, name := range SortedKeys(s.PeakRSS) {
			if len(sums.Rows) > 0 {
				peaks = append(peaks, fmt.Sprintf("%s %d MiB", name, s.PeakRSS[name]>>20))
			}
		}
	}
	figures := fmt.Sprintf("%s\nMeasured at %s on %d cores, %s, %s.\nTimes are over HTTP, averages geometric means; every answer was compared with Prometheus's. Peak memory of the\ndashboards' servers, mapped files included: %s.\n",
		t.Markdown(), r.Setup.Commit, r.Setup.Cores, r.Setup.Processor, r.Setup.Date, strings.Join(peaks, ", "))
	return os.WriteFile(page, []byte(before+figuresBegin+figures+figuresEnd+after), 0o644)
}
