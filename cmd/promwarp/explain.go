package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

func init() { commands = append(commands, explainCommand) }

// explainOptions are the flags of promwarp explain.
type explainOptions struct {
	target
	request
	analyze bool
	format  string
}

// explainCommand declares promwarp explain.
func explainCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("explain", "Show who evaluates which part of a query, why, and what it took.").HelpLong(`Examples:
  promwarp explain --start=-24h 'sum by (job) (rate(http_requests_total[5m]))'
  promwarp explain --no-analyze 'topk(5, node_load1)'            # without running it
`)
	var o explainOptions
	cmd.Flag("analyze", "Run the query, and say what it took.").Default("true").BoolVar(&o.analyze)
	cmd.Flag("format", "Form of the answer: tree or json.").Short('o').Default("tree").EnumVar(&o.format, "tree", "json")
	o.request.add(cmd)
	o.target.add(cmd)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runExplain(ctx, o, os.Stdout, os.Stderr)
	}
}

// runExplain asks for a plan and prints it.
func runExplain(ctx context.Context, o explainOptions, stdout, stderr io.Writer) error {
	a, err := o.form(time.Now())
	if err != nil {
		return err
	}
	o.choose(a.form)
	a.form.Set("analyze", strconv.FormatBool(o.analyze))
	c, closed, err := o.open(stderr)
	if err != nil {
		return err
	}
	defer closed()
	answer, err := c.Ask(ctx, "/explain", a.form)
	if err != nil {
		return err
	}
	notes(stderr, answer)
	if o.format == "json" {
		_, err = fmt.Fprintf(stdout, "%s\n", answer.Data)
		return err
	}
	if a.resampled() {
		var e resample.Explanation
		if err := json.Unmarshal(answer.Data, &e); err != nil {
			return err
		}
		render.Resampling(stdout, &e, terminal.StyleOf(stdout))
		return nil
	}
	var e plan.Explanation
	if err := json.Unmarshal(answer.Data, &e); err != nil {
		return err
	}
	render.Plan(stdout, &e, terminal.Width(stdout), terminal.StyleOf(stdout))
	return nil
}
