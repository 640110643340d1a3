package render

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/guptarohit/asciigraph"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
)

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

// Width is the width of charts and tables on w: that of the terminal, or where there is none so many.
func Width(w io.Writer, otherwise int) int {
	if columns := terminal.Width(w); columns > 0 {
		return columns
	}
	return otherwise
}
