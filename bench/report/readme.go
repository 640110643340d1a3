package report

import (
	"fmt"
	"os"
	"strings"
)

// sums is a row a dashboard: what all of its panels take, one after the other. Names of its questions
// begin with its own and a colon; nil where there is none.
func (s *Stage) sums() *Table {
	t := &Table{Title: "All panels of a dashboard:", Left: 1, Head: append([]string{"dashboard", "panels"}, s.Contenders...)}
	var last string
	var panels int
	took := map[string]float64{}
	for i, row := range s.Rows {
		dashboard, _, ok := strings.Cut(row.Name, ": ")
		if !ok {
			return nil
		}
		last, panels = dashboard, panels+1
		for name, c := range row.Costs {
			took[name] += c.Median
		}
		if i+1 == len(s.Rows) || !strings.HasPrefix(s.Rows[i+1].Name, dashboard+": ") {
			cells := []string{last, fmt.Sprint(panels)}
			for _, name := range s.Contenders {
				cells = append(cells, milliseconds(took[name]))
			}
			t.Add(cells...)
			panels = 0
			clear(took)
		}
	}
	return t
}

// The lines of a page between which WriteFigures writes.
const figuresBegin, figuresEnd = "<!-- figures: make readme-figures -->\n", "<!-- end of figures -->\n"

// WriteFigures writes what the stages dashboards and exporters found into a page, between two marks.
func (r *Result) WriteFigures(page, commit string) error {
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
	peaks := ""
	for _, s := range r.Stages {
		what := fmt.Sprintf("%d queries over HTTP, %.1f M samples: ", len(s.Rows), float64(s.Data.Samples)/1e6)
		for _, p := range s.Pairs {
			if x := s.ratio(p); x.n > 0 && p.Base != PromwarpFirst && p.Contender != VictoriaMetrics {
				t.Add(fmt.Sprintf("%s%s against %s", what, p.Contender, p.Base), fmt.Sprintf("%s on average, %s at least, %s at most", Times(x.mean, 1), Times(x.least, 1), Times(x.most, 1)))
			}
		}
		if sums := s.sums(); sums != nil {
			for _, row := range sums.Rows {
				var took []string
				for i, name := range s.Contenders {
					took = append(took, fmt.Sprintf("%s %s ms", name, row[2+i]))
				}
				t.Add(fmt.Sprintf("dashboard `%s`, %s panels over %d days", row[0], row[1], s.Hours/24), strings.Join(took, ", "))
			}
			for _, name := range SortedKeys(s.PeakRSS) {
				peaks += fmt.Sprintf(", %s %d MiB", name, s.PeakRSS[name]>>20)
			}
		}
	}
	figures := fmt.Sprintf("%s\nMeasured at %s on %d cores, %s, %s.\nAverages are geometric means; every answer was compared with Prometheus's. Peak memory of the dashboards' servers,\nmapped files included: %s.\n",
		t.Markdown(), commit, r.Setup.Cores, r.Setup.Processor, r.Setup.Date, strings.TrimPrefix(peaks, ", "))
	return os.WriteFile(page, []byte(before+figuresBegin+figures+figuresEnd+after), 0o644)
}
