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
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/resample"
)

// Answer prints an answer to PromQL as a table, a row a series, as they come. The rows of a range sum up
// its points. Each mostHeld rows have the widths of their own cells.
type Answer struct {
	w     io.Writer
	width int // 0 sets no limit
	rows  [][]string
	begun bool
}

const mostHeld = 4096

// NewAnswer prints on w, in rows of at most the given number of characters.
func NewAnswer(w io.Writer, width int) *Answer { return &Answer{w: w, width: width} }

// Add prints a series of an answer of a type, or its scalar.
func (a *Answer) Add(of parser.ValueType, s compare.Series) error {
	switch of {
	case parser.ValueTypeScalar:
		return a.add([]string{number(s.Floats[0].F)}, nil)
	case parser.ValueTypeVector:
		return a.add([]string{"SERIES", "VALUE"}, []string{name(s.Labels), ends(s)[0]})
	}
	return a.add([]string{"SERIES", "POINTS", "FIRST", "MIN", "MAX", "LAST"}, summary(s))
}

// add adds a row, and the first one below a title.
func (a *Answer) add(title, cells []string) error {
	if !a.begun {
		a.begun, a.rows = true, append(a.rows, title)
	}
	if cells != nil {
		a.rows = append(a.rows, cells)
	}
	if len(a.rows) < mostHeld {
		return nil
	}
	return a.flush()
}

func (a *Answer) flush() error {
	rows := a.rows
	a.rows = nil
	return Table(a.w, rows, 0, a.width)
}

// Close prints what is left.
func (a *Answer) Close() error {
	_ = a.add([]string{"(no series)"}, nil) // where there was none
	if len(a.rows) == 0 {
		return nil
	}
	return a.flush()
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

// name is a series as Prometheus writes it.
func name(l labels.Labels) string {
	m := model.Metric{}
	l.Range(func(l labels.Label) { m[model.LabelName(l.Name)] = model.LabelValue(l.Value) })
	return m.String()
}

// summary is the row of one series of a range.
func summary(s compare.Series) []string {
	least, most := "", ""
	if len(s.Floats) > 0 {
		a, b := bounds(s.Floats)
		least, most = number(a), number(b)
	}
	at := ends(s)
	return []string{name(s.Labels), strconv.Itoa(len(s.Floats) + len(s.Histograms)), at[0], least, most, at[1]}
}

// ends are the first and the last value of a series, or its histograms where it has nothing else.
func ends(s compare.Series) (at [2]string) {
	if n := len(s.Floats); n > 0 {
		return [2]string{number(s.Floats[0].F), number(s.Floats[n-1].F)}
	}
	if n := len(s.Histograms); n > 0 {
		for i, h := range []compare.Histogram{s.Histograms[0], s.Histograms[n-1]} {
			at[i] = fmt.Sprintf("{count:%s, sum:%s}", number(h.Count), number(h.Sum))
		}
	}
	return at
}

// bounds are the least and the largest value, NaN where all are.
func bounds(points []promql.FPoint) (least, most float64) {
	least, most = math.NaN(), math.NaN()
	for _, p := range points {
		if math.IsNaN(least) || p.F < least {
			least = p.F
		}
		if math.IsNaN(most) || p.F > most {
			most = p.F
		}
	}
	return least, most
}

// number is f in full, in the shortest form.
func number(f float64) string {
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

// Chart is the series of a range that are drawn, the first mostLines of them, and how many there are.
type Chart struct {
	drawn       []compare.Series
	all         int
	first, last int64 // ms since the epoch
	step        int64 // the shortest between two values
}

// Add adds a series.
func (c *Chart) Add(s compare.Series) {
	for i, p := range s.Floats {
		if c.first == 0 || p.T < c.first {
			c.first = p.T
		}
		c.last = max(c.last, p.T)
		if i > 0 && (c.step == 0 || p.T-s.Floats[i-1].T < c.step) {
			c.step = p.T - s.Floats[i-1].T
		}
	}
	c.all++
	if least, _ := bounds(s.Floats); !math.IsNaN(least) && len(c.drawn) < mostLines { // asciigraph needs a value
		c.drawn = append(c.drawn, s)
	}
}

// Draw draws the series width columns wide: over r, or over what they cover where r has no step.
func (c *Chart) Draw(w io.Writer, r Range, width int, style terminal.Style) error {
	if r.Step == 0 {
		r = Range{Start: time.UnixMilli(c.first), End: time.UnixMilli(c.last), Step: time.Duration(max(c.step, 1)) * time.Millisecond}
	}
	var lines [][]float64
	var names []string
	for _, s := range c.drawn {
		lines = append(lines, line(s.Floats, r))
		names = append(names, terminal.Fit(name(s.Labels), width-4))
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
	if left := c.all - len(lines); left > 0 {
		fmt.Fprintf(w, "  %d more series are not drawn; topk or an aggregation leaves fewer\n", left)
	}
	return nil
}

// line is one value a step, NaN where there is none or no finite one.
func line(points []promql.FPoint, r Range) []float64 {
	all := make([]float64, int(r.End.Sub(r.Start)/r.Step)+1)
	for i := range all {
		all[i] = math.NaN()
	}
	for _, p := range points {
		i := int(time.UnixMilli(p.T).Sub(r.Start) / r.Step)
		if i >= 0 && i < len(all) && !math.IsInf(p.F, 0) {
			all[i] = p.F
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
			Count(work.Series), Count(work.Samples), work.Chunks, Size(work.Bytes), Count(work.Runs), Count(work.Values), work.Groups)
		for _, s := range work.Stages {
			fmt.Fprintf(w, "%-12s %s\n", s.Name, time.Duration(s.Micros)*time.Microsecond)
		}
	}
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// Count writes a number of things: in full where that is short.
func Count(n int64) string {
	if n < 100_000 {
		return fmt.Sprint(n)
	}
	return short(float64(n))
}

// Size writes a number of bytes.
func Size(n int64) string { return units.Base2Bytes(n).Round(1).String() }

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
		fmt.Fprintf(w, "%d selectors, %s of %s in memory", c.Count, Size(c.Bytes), Size(c.Limit))
		if c.DiskLimit > 0 {
			fmt.Fprintf(w, ", %s of %s on disk", Size(c.DiskBytes), Size(c.DiskLimit))
		}
		fmt.Fprintf(w, "; tiles of %s\n", time.Duration(c.Tile)*time.Millisecond)
		if len(c.Selectors) == 0 {
			continue
		}
		rows := [][]string{{"SELECTOR", "SERIES", "SAMPLES", "MEMORY", "DISK", "DEVICE", "COVERS", "LATEST"}}
		for _, s := range c.Selectors {
			covered, latest := coverage(s)
			rows = append(rows, []string{s.Text, Count(int64(s.Series)), Count(s.Samples), Size(s.Bytes), Size(s.DiskBytes), Size(s.DeviceBytes), covered, latest})
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
