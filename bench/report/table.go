package report

import (
	"cmp"
	"fmt"
	"strconv"
)

// titles are the contenders' columns.
var titles = map[string]string{
	Prometheus:      "Prometheus ms",
	PromwarpFirst:   "first ms",
	Promwarp:        "repeated ms",
	VictoriaMetrics: "VM ms",
}

// grid is the table as text: a header and rows of as many cells.
func (r *Result) grid() [][]string {
	head := []string{"query", "range", "points"}
	for _, c := range r.Setup.Contenders {
		head = append(head, cmp.Or(titles[c], c+" ms"))
	}
	for _, c := range columns {
		if r.has(c.base) && r.has(c.contender) {
			head = append(head, c.title)
		}
	}
	head = append(head, "promwarp's answer")
	if r.has(VictoriaMetrics) {
		head = append(head, "VM's answer")
	}
	rows := [][]string{head}
	for i := range r.Rows {
		rows = append(rows, r.cells(&r.Rows[i]))
	}
	return append(rows, r.means(len(head)))
}

func (r *Result) cells(row *Row) []string {
	cells := []string{row.Name, row.Range + "@" + row.Step, strconv.Itoa(row.Points)}
	for _, c := range r.Setup.Contenders {
		if t, ok := row.Timings[c]; ok {
			cells = append(cells, fmt.Sprintf("%.1f", t.Median))
		} else {
			cells = append(cells, "")
		}
	}
	for _, c := range columns {
		if !r.has(c.base) || !r.has(c.contender) {
			continue
		}
		if x, ok := row.ratio(c.base, c.contender); ok {
			cells = append(cells, Times(x))
		} else {
			cells = append(cells, "")
		}
	}
	return append(cells, r.verdicts(row)...)
}

// verdicts says of the answers whether they are Prometheus's.
func (r *Result) verdicts(row *Row) []string {
	promwarp := "same"
	switch {
	case row.Error != "":
		promwarp = "ERROR"
	case row.Wrong != nil:
		promwarp = "DIFFERS"
	case !r.has(Promwarp):
		promwarp = ""
	}
	if !r.has(VictoriaMetrics) {
		return []string{promwarp}
	}
	vm := "same"
	switch d := row.Other; {
	case row.Error != "":
		vm = ""
	case d == nil:
	case d.SameData():
		vm = "error" // its own words are all there is
	case d.MissingSeries+d.ExtraSeries > 0:
		vm = "other series"
	case d.MissingPoints+d.ExtraPoints > 0:
		vm = "other points"
	default:
		vm = "off by " + percent(d.Worst)
	}
	return []string{promwarp, vm}
}

// means is the last row: the geometric means of the ratios.
func (r *Result) means(width int) []string {
	cells := make([]string, 0, width)
	cells = append(cells, "geometric mean", "", "")
	for range r.Setup.Contenders {
		cells = append(cells, "")
	}
	for _, c := range columns {
		if !r.has(c.base) || !r.has(c.contender) {
			continue
		}
		text := ""
		for _, x := range r.Ratios {
			if x.Base == c.base && x.Contender == c.contender {
				text = Times(x.Mean)
			}
		}
		cells = append(cells, text)
	}
	for len(cells) < width {
		cells = append(cells, "")
	}
	return cells
}

// Times writes a ratio with two or three digits.
func Times(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

// percent writes a share with one digit at least.
func percent(x float64) string {
	if x >= 0.01 {
		return fmt.Sprintf("%.0f%%", 100*x)
	}
	return fmt.Sprintf("%.1g%%", 100*x)
}
