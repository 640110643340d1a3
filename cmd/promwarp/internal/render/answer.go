// Package render shows for reading what servers answer: values as tables and charts, plans as trees,
// caches as tables. All of it fits the width of a terminal, where there is one.
package render

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
)

// Answer prints an answer to PromQL as a table: a row a series, of at most so many characters. The
// rows of a range sum up its points. A width of 0 sets no limit.
func Answer(w io.Writer, v model.Value, width int) error {
	var rows [][]string
	switch r := v.(type) {
	case *model.Scalar:
		_, err := fmt.Fprintln(w, number(r.Value))
		return err
	case *model.String:
		_, err := fmt.Fprintln(w, r.Value)
		return err
	case model.Vector:
		rows = append(rows, []string{"SERIES", "VALUE"})
		for _, s := range r {
			rows = append(rows, []string{s.Metric.String(), value(s.Value, s.Histogram)})
		}
	case model.Matrix:
		rows = append(rows, []string{"SERIES", "POINTS", "FIRST", "MIN", "MAX", "LAST"})
		for _, s := range r {
			rows = append(rows, summary(s))
		}
	}
	if len(rows) == 1 {
		_, err := fmt.Fprintln(w, "(no series)")
		return err
	}
	return Table(w, rows, 0, width)
}

// Table prints rows in columns. Where they are wider than width, the cells of the column flexible are cut.
func Table(w io.Writer, rows [][]string, flexible, width int) error {
	if width > 0 {
		room := width - 1 // for the cursor
		for k := range rows[0] {
			if k != flexible {
				most := 0
				for _, r := range rows {
					most = max(most, utf8.RuneCountInString(r[k]))
				}
				room -= most + 2
			}
		}
		for _, r := range rows {
			r[flexible] = terminal.Fit(r[flexible], max(room, narrowest))
		}
	}
	buf := bufio.NewWriter(w)
	t := tabwriter.NewWriter(buf, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return buf.Flush()
}

// narrowest is how many characters of a cell are left on any terminal.
const narrowest = 12

// summary is the row of one series of a range.
func summary(s *model.SampleStream) []string {
	points := strconv.Itoa(len(s.Values) + len(s.Histograms))
	if len(s.Values) == 0 {
		n := len(s.Histograms)
		return []string{s.Metric.String(), points, value(0, s.Histograms[0].Histogram), "", "", value(0, s.Histograms[n-1].Histogram)}
	}
	least, most := bounds(s.Values)
	return []string{
		s.Metric.String(), points, number(s.Values[0].Value), number(model.SampleValue(least)), number(model.SampleValue(most)),
		number(s.Values[len(s.Values)-1].Value),
	}
}

// bounds are the least and the largest value, NaN where all are.
func bounds(points []model.SamplePair) (least, most float64) {
	least, most = math.NaN(), math.NaN()
	for _, p := range points {
		f := float64(p.Value)
		if math.IsNaN(least) || f < least {
			least = f
		}
		if math.IsNaN(most) || f > most {
			most = f
		}
	}
	return least, most
}

func value(f model.SampleValue, h *model.SampleHistogram) string {
	if h != nil {
		return fmt.Sprintf("{count:%s, sum:%s}", number(model.SampleValue(h.Count)), number(model.SampleValue(h.Sum)))
	}
	return number(f)
}

// number is v in full, in the shortest form.
func number(v model.SampleValue) string {
	f := float64(v)
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e15) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
