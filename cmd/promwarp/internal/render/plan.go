package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/units"

	"github.com/promwarp/promwarp/cache/contents"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// tree prints lines of a plan.
type tree struct {
	w     io.Writer
	width int
	style terminal.Style
}

// Plan prints how a query is, or was, evaluated: a tree of its nodes, what each took, and then what
// was left to Prometheus's engine.
func Plan(w io.Writer, e *plan.Explanation, width int, style terminal.Style) {
	t := tree{w, width, style}
	if e.Root != nil {
		t.node(e.Root, "", "")
	}
	fmt.Fprintln(w)
	if e.Analyzed {
		fmt.Fprintf(w, "took      %s\n", micros(e.Total))
	}
	if e.Exact == plan.Bits {
		fmt.Fprintf(w, "exact     %s\n", e.Exact)
	}
	if e.Cache != nil {
		fmt.Fprintf(w, "cache     %s\n", e.Cache)
	}
	for _, u := range e.Upstreams {
		fmt.Fprintf(w, "upstream  %s", u.Name)
		if u.Cache != nil {
			fmt.Fprintf(w, ": %s", u.Cache)
		}
		if u.Failure != "" {
			fmt.Fprintf(w, "; missing: %s", style.Bad(u.Failure))
		}
		fmt.Fprintln(w)
	}
	for _, s := range e.Settings {
		fmt.Fprintf(w, "settings  %s\n", s)
	}
	t.left(e)
}

// left says which nodes Prometheus's engine evaluates, and why.
func (t *tree) left(e *plan.Explanation) {
	if e.Root == nil {
		return
	}
	nodes, left := 0, []*plan.Decision{}
	e.Root.Walk(func(d *plan.Decision) {
		nodes++
		if d.Executor == plan.OnPrometheus {
			left = append(left, d)
		}
	})
	if len(left) == 0 {
		fmt.Fprintln(t.w, t.style.Good("all of it is accelerated"))
		return
	}
	fmt.Fprintln(t.w, t.style.Note(fmt.Sprintf("%d of %d nodes are not accelerated:", len(left), nodes)))
	for _, d := range left {
		fmt.Fprintf(t.w, "  %s\n", terminal.Fit(d.Expr, t.width-3))
		fmt.Fprintf(t.w, "    %s\n", t.style.Dim(d.Reason))
	}
}

// node prints a node behind first, its details and children behind rest.
func (t *tree) node(d *plan.Decision, first, rest string) {
	where := "[" + d.Executor + "]"
	room := 0
	if t.width > 0 {
		room = max(t.width-len([]rune(first))-len(where)-2, narrowest)
	}
	style := t.style.Good
	if d.Executor == plan.OnPrometheus {
		style = t.style.Note
	}
	fmt.Fprintf(t.w, "%s%s %s\n", first, style(where), terminal.Fit(strings.Join(strings.Fields(d.Expr), " "), room))
	stem := rest + "   "
	if len(d.Children) > 0 {
		stem = rest + "│  "
	}
	for _, text := range details(d) {
		fmt.Fprintln(t.w, stem+t.style.Dim(text))
	}
	for i, c := range d.Children {
		if i < len(d.Children)-1 {
			t.node(c, rest+"├─ ", rest+"│  ")
		} else {
			t.node(c, rest+"└─ ", rest+"   ")
		}
	}
}

// details are what is said of a node, a line each.
func details(d *plan.Decision) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if d.Reason != "" {
		add("%s", d.Reason)
	}
	if w := d.Work; w != nil {
		add("%s series, %s samples decoded from %d chunks (%s), %s kept decoded", count(int64(w.Series)), count(w.Samples), w.Chunks, size(w.Bytes), count(w.Kept))
		add("fetched in %s, evaluated in %s; %s points in %s series", micros(w.FetchMicros), micros(w.EvalMicros), count(w.ResultPoints), count(int64(w.ResultSeries)))
		if g := w.Device; g != nil {
			add("on GPUs: %d windows, %s samples decoded from %d chunks (%s) in %s", g.Leaves, count(g.Samples), g.Chunks, size(g.Bytes), micros(g.Micros))
		}
	}
	if c := d.Choice; c != nil {
		add("estimated %s on the cores, %s on a GPU; took %s", micros(c.CPU), micros(c.GPU), micros(c.Took))
		if c.Stages != nil {
			add("GPU %d: %s", *c.Device, c.Stages)
		}
	}
	if k := d.Remembered; k != nil {
		add("%s", k)
	}
	return lines
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
		fmt.Fprintf(w, "\n%s series, %s samples decoded from %d chunks (%s), %s runs; %s values in %d groups\n",
			count(work.Series), count(work.Samples), work.Chunks, size(work.Bytes), count(work.Runs), count(work.Values), work.Groups)
		for _, s := range work.Stages {
			fmt.Fprintf(w, "%-12s %s\n", s.Name, micros(s.Micros))
		}
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

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
func Caches(w io.Writer, all []contents.Contents, width int) error {
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
func coverage(s contents.Selector) (covered, latest string) {
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
