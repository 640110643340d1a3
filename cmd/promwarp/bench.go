package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/promslog"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/benchmark"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

func init() { commands = append(commands, benchCommand) }

// benchOptions are the flags of promwarp bench.
type benchOptions struct {
	settings      config.Flags
	series, hours int
	format        string
}

// benchCommand declares promwarp bench.
func benchCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("bench", "Take a quick look at how fast this machine decodes samples and evaluates windows, on its cores and GPUs.").HelpLong(`Examples:
  promwarp bench
  promwarp bench --gpu=off -o json
`)
	var o benchOptions
	cmd.Flag("series", "Series of the largest metric.").Default("1000").IntVar(&o.series)
	cmd.Flag("hours", "Hours of samples, one every 15 s.").Default("12").IntVar(&o.hours)
	cmd.Flag("format", "Form of the answer: table or json.").Short('o').Default("table").EnumVar(&o.format, "table", "json")
	o.settings.AddGPU(cmd)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runBench(ctx, o, os.Stdout, os.Stderr)
	}
}

// runBench measures and prints a table.
func runBench(ctx context.Context, o benchOptions, stdout, stderr io.Writer) error {
	if o.series < 8 || o.hours < 1 {
		return config.Usagef("--series must be at least 8, --hours at least 1")
	}
	set, err := o.settings.Load()
	if err != nil {
		return err
	}
	p := terminal.NewProgress(stderr, false)
	defer p.Clear()
	options := benchmark.Options{Series: o.series, Hours: o.hours, Least: 300 * time.Millisecond, Settings: set.Engine(upstream.Facts{}), Note: func(text string) { p.Show("%s", text) }}
	gpus, err := backend.OpenGPUs(set.GPU, promslog.NewNopLogger(), nil)
	if err != nil {
		return err
	}
	if gpus != nil {
		defer gpus.Close()
		options.Note("looking for GPUs")
		select {
		case <-gpus.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, d := range gpus.Report().Devices {
			if d.Reason == "" {
				options.GPUs = gpus
			}
		}
	}
	r, err := benchmark.Run(ctx, options)
	if err != nil {
		return err
	}
	p.Clear()
	if o.format == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return printBench(stdout, r)
}

// printBench prints a table for reading.
func printBench(stdout io.Writer, r benchmark.Result) error {
	fmt.Fprintf(stdout, "Millions of samples a second; %.1f million samples of a metric, a step a minute.\nAll but decode find their samples decoded, as a dashboard does that is looked at again.\n\n", float64(r.Samples)/1e6)
	rows := [][]string{append(append([]string{"WHAT"}, r.Columns...), "QUERY")}
	for _, row := range r.Rows {
		cells := []string{row.What}
		for _, rate := range row.Rates {
			if rate == 0 {
				cells = append(cells, "-")
				continue
			}
			cells = append(cells, fmt.Sprintf("%.0f", rate/1e6))
		}
		rows = append(rows, append(cells, row.Query))
	}
	if err := render.Table(stdout, rows, len(rows[0])-1, terminal.Width(stdout)); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if row.Failure != "" {
			fmt.Fprintf(stdout, "\n%s: not on the GPU: %s\n", row.What, row.Failure)
		}
	}
	return nil
}
