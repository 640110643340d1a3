// Package render shows for reading what servers answer: values as tables and charts, plans of resample
// requests, caches as tables. All of it fits the width of a terminal, where there is one.
package render

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/units"
	"github.com/guptarohit/asciigraph"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/resample"
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

const (
	// mostLines is how many series a chart has at most, so that lines can be told apart.
	mostLines   = 8
	chartHeight = 15
	// axisWidth is what the labels of the vertical axis take.
	axisWidth = 12
)

// colours are those of the lines in turn.
var colours = []asciigraph.AnsiColor{
	asciigraph.Green, asciigraph.Blue, asciigraph.Red, asciigraph.Yellow, asciigraph.Magenta, asciigraph.Cyan, asciigraph.White, asciigraph.Orange,
}

// Range is the steps of a chart.
type Range struct {
	Start, End time.Time
	Step       time.Duration
}

// Chart draws the series of a range in so many columns, the first mostLines of them.
func Chart(w io.Writer, m model.Matrix, r Range, width int, style terminal.Style) error {
	var lines [][]float64
	var names []string
	for _, s := range m {
		least, _ := bounds(s.Values)
		if math.IsNaN(least) || len(lines) == mostLines {
			continue // asciigraph needs a value
		}
		lines = append(lines, line(s.Values, r))
		names = append(names, terminal.Fit(s.Metric.String(), width-4))
	}
	if len(lines) == 0 {
		_, err := fmt.Fprintln(w, "(no values to draw)")
		return err
	}
	layout := "15:04"
	if r.End.Sub(r.Start) > 36*time.Hour {
		layout = "01-02"
	}
	options := []asciigraph.Option{
		asciigraph.Height(chartHeight), asciigraph.Width(max(width-axisWidth, narrowest)),
		asciigraph.YAxisValueFormatter(short),
		asciigraph.XAxisRange(float64(r.Start.Unix()), float64(r.End.Unix())),
		asciigraph.XAxisTickCount(max(2, min(8, (width-axisWidth)/12))),
		asciigraph.XAxisValueFormatter(func(t float64) string { return time.Unix(int64(t), 0).Local().Format(layout) }),
	}
	if style {
		options = append(options, asciigraph.SeriesColors(colours[:len(lines)]...))
	}
	if _, err := fmt.Fprintln(w, asciigraph.PlotMany(lines, options...)); err != nil {
		return err
	}
	for i, name := range names {
		if style {
			name = colours[i].String() + "━" + asciigraph.Default.String() + " " + name
		}
		fmt.Fprintln(w, " ", name)
	}
	if left := len(m) - len(lines); left > 0 {
		fmt.Fprintf(w, "  %d more series are not drawn; topk or an aggregation leaves fewer\n", left)
	}
	return nil
}

// line is one value a step, NaN where there is none or no finite one.
func line(points []model.SamplePair, r Range) []float64 {
	all := make([]float64, int(r.End.Sub(r.Start)/r.Step)+1)
	for i := range all {
		all[i] = math.NaN()
	}
	for _, p := range points {
		i := int(p.Timestamp.Time().Sub(r.Start) / r.Step)
		if f := float64(p.Value); i >= 0 && i < len(all) && !math.IsInf(f, 0) {
			all[i] = f
		}
	}
	return all
}

// short writes a number in few characters: 12.5k, 3.2M.
func short(f float64) string {
	a := math.Abs(f)
	for _, u := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}} {
		if a >= u.of {
			return fmt.Sprintf("%.3g%s", f/u.of, u.name)
		}
	}
	return fmt.Sprintf("%.3g", f)
}

// Resampling prints how a resample request is, or was, computed.
func Resampling(w io.Writer, e *resample.Explanation, style terminal.Style) {
	fmt.Fprintf(w, "%s %s\n", style.Good("["+e.Executor+"]"), e.Reason)
	fmt.Fprintf(w, "%d buckets every %s over %s, from %s to %s\n", e.Buckets, e.Every, e.Period, moment(e.First), moment(e.Last))
	for _, p := range e.Passes {
		fmt.Fprintf(w, "└─ %s of %s: %s\n", strings.Join(p.Aggregates, ", "), p.Of, strings.Join(p.Parts, ", "))
		if p.Note != "" {
			fmt.Fprintf(w, "   %s\n", style.Dim(p.Note))
		}
	}
	if e.Note != "" {
		fmt.Fprintln(w, style.Dim(e.Note))
	}
	if work := e.Work; work != nil {
		fmt.Fprintf(w, "\n%s series, %s samples, %d chunks decoded (%s), %s runs; %s values in %d groups\n",
			count(work.Series), count(work.Samples), work.Chunks, size(work.Bytes), count(work.Runs), count(work.Values), work.Groups)
		for _, s := range work.Stages {
			fmt.Fprintf(w, "%-12s %s\n", s.Name, time.Duration(s.Micros)*time.Microsecond)
		}
	}
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// count writes a number of things: in full where that is short.
func count(n int64) string {
	if n < 100_000 {
		return fmt.Sprint(n)
	}
	return short(float64(n))
}

// size writes a number of bytes.
func size(n int64) string { return units.Base2Bytes(n).Round(1).String() }

// Caches prints what caches have: of each its sizes, and a row a selector.
func Caches(w io.Writer, all []cache.Contents, width int) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there is no cache")
		return err
	}
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if c.Name != "" {
			fmt.Fprintf(w, "%s: ", c.Name)
		}
		fmt.Fprintf(w, "%d selectors, %s of %s in memory", c.Count, size(c.Bytes), size(c.Limit))
		if c.DiskLimit > 0 {
			fmt.Fprintf(w, ", %s of %s on disk", size(c.DiskBytes), size(c.DiskLimit))
		}
		fmt.Fprintf(w, "; tiles of %s\n", time.Duration(c.Tile)*time.Millisecond)
		if len(c.Selectors) == 0 {
			continue
		}
		rows := [][]string{{"SELECTOR", "SERIES", "SAMPLES", "MEMORY", "DISK", "DEVICE", "COVERS", "LATEST"}}
		for _, s := range c.Selectors {
			covered, latest := coverage(s)
			rows = append(rows, []string{s.Text, count(int64(s.Series)), count(s.Samples), size(s.Bytes), size(s.DiskBytes), size(s.DeviceBytes), covered, latest})
		}
		if err := Table(w, rows, 0, width); err != nil {
			return err
		}
		if left := c.Count - len(c.Selectors); left > 0 {
			fmt.Fprintf(w, "%d smaller ones are not listed; --limit lists more\n", left)
		}
	}
	return nil
}

// coverage is how much time is kept of a selector, in memory or on disk, and until when.
func coverage(s cache.Selector) (covered, latest string) {
	var total, end int64
	for _, spans := range [][][2]int64{s.Memory, s.Disk} {
		sum := int64(0)
		for _, p := range spans {
			sum += p[1] - p[0]
			end = max(end, p[1])
		}
		total = max(total, sum)
	}
	if end == 0 {
		return "-", "-"
	}
	return (time.Duration(total) * time.Millisecond).String(), time.UnixMilli(end).UTC().Format("2006-01-02 15:04")
}
