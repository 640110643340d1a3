package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
)

func init() { commands = append(commands, queryCommand) }

// queryOptions are the flags of promwarp query.
type queryOptions struct {
	target
	request
	format string
	layout string
	plot   bool
}

// mediaTypes are those of the formats that only promwarp's /query answers in.
var mediaTypes = map[string]string{
	"csv": "text/csv", "ndjson": "application/x-ndjson",
	"arrow": "application/vnd.apache.arrow.stream", "parquet": "application/vnd.apache.parquet",
}

// queryCommand declares promwarp query.
func queryCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("query", "Ask for PromQL or a resample request, and print the answer.").HelpLong(`Examples:
  promwarp query 'sum by (job) (rate(http_requests_total[5m]))'
  promwarp query --start=-24h --plot 'avg by (job) (node_load1)'
  promwarp query --start=-30d --step=1h -o parquet 'node_load1' > load.parquet
  promwarp query --metric=node_load1 --start=-1d --every=1h --aggregates=mean,95pct --by=job -o csv
  promwarp query --upstream.url=http://prometheus:9090 'up'      # without a server
`)
	var o queryOptions
	cmd.Flag("format", "Form of the answer: table, json, or of a promwarp csv, ndjson, arrow or parquet.").Short('o').Default("table").EnumVar(&o.format, "table", "json", "csv", "ndjson", "arrow", "parquet")
	cmd.Flag("layout", "Layout of arrow and parquet: long or wide.").PlaceHolder("long").EnumVar(&o.layout, "long", "wide")
	cmd.Flag("plot", "Draw a range in the terminal.").BoolVar(&o.plot)
	o.request.add(cmd)
	o.target.add(cmd)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runQuery(ctx, o, os.Stdout, os.Stderr)
	}
}

// runQuery asks and prints the answer.
func runQuery(ctx context.Context, o queryOptions, stdout, stderr io.Writer) error {
	a, err := o.form(time.Now())
	if err != nil {
		return err
	}
	o.choose(a.form)
	kind := mediaTypes[o.format]
	switch {
	case o.plot && a.over.Step == 0 && !a.resampled():
		return config.Usagef("--plot draws a range: give --start, such as --start=-1h")
	case (o.format == "arrow" || o.format == "parquet") && terminal.Is(stdout):
		return config.Usagef("%s is not for reading: write it to a file, > answer.%s", o.format, o.format)
	case o.layout != "":
		a.form.Set("layout", o.layout)
	}
	if a.resampled() && o.format == "table" {
		a.form.Del("fill") // tables and charts show the values that there are
	}
	c, closed, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer closed()
	if kind != "" {
		a.form.Set("format", o.format)
		return c.Copy(ctx, stdout, "/query", a.form, kind)
	}
	answer, err := c.Ask(ctx, a.path, a.form)
	if err != nil {
		return err
	}
	return o.print(a, answer, stdout, stderr)
}

// print prints an answer that is JSON.
func (o *queryOptions) print(a asked, answer *client.Answer, stdout, stderr io.Writer) error {
	notes(stderr, answer)
	if o.format == "json" {
		_, err := fmt.Fprintf(stdout, "%s\n", answer.Data)
		return err
	}
	v, err := answer.Value()
	if err != nil {
		return err
	}
	matrix, ranged := v.(model.Matrix)
	if !o.plot || !ranged {
		return render.Answer(stdout, v, terminal.Width(stdout))
	}
	over := a.over
	if a.resampled() {
		over = spread(matrix)
	}
	return render.Chart(stdout, matrix, over, render.Width(stdout, 100), terminal.StyleOf(stdout))
}

// spread is the range of a resample request's answer, whose step is the shortest between two values.
func spread(m model.Matrix) (r render.Range) {
	var first, last model.Time
	step := model.Time(0)
	for _, s := range m {
		for i, p := range s.Values {
			if first == 0 || p.Timestamp < first {
				first = p.Timestamp
			}
			last = max(last, p.Timestamp)
			if i > 0 && (step == 0 || p.Timestamp-s.Values[i-1].Timestamp < step) {
				step = p.Timestamp - s.Values[i-1].Timestamp
			}
		}
	}
	return render.Range{Start: first.Time(), End: last.Time(), Step: time.Duration(max(step, 1)) * time.Millisecond}
}
