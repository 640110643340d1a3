package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
)

// queryOptions are the flags of promwarp query.
type queryOptions struct {
	target
	request
	format string
	layout string
	plot   bool
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
	c, closed, err := o.open(a.form, stderr)
	if err != nil {
		return err
	}
	defer closed()
	for _, f := range table.Formats[1:] { // which only promwarp's /query answers in
		if f.Name == o.format {
			a.form.Set("format", o.format)
			_, err := c.Stream(ctx, "/query", a.form, f.Media, func(data io.Reader) error {
				_, err := io.Copy(stdout, data)
				return err
			})
			return err
		}
	}
	reply, err := c.Stream(ctx, a.path, a.form, client.JSON, func(data io.Reader) error {
		return o.print(data, a.over, stdout)
	})
	if err != nil {
		return err
	}
	tell(&reply, stderr)
	return nil
}

// print prints the data of an answer as it comes.
func (o *queryOptions) print(data io.Reader, over render.Range, stdout io.Writer) error {
	if o.format == "json" {
		if _, err := io.Copy(stdout, data); err != nil {
			return err
		}
		_, err := fmt.Fprintln(stdout)
		return err
	}
	width := terminal.Width(stdout)
	table := render.NewAnswer(stdout, width)
	var chart render.Chart
	var answer compare.Answer
	err := answer.Read(data, func(s compare.Series) error {
		if o.plot && answer.Type == parser.ValueTypeMatrix {
			chart.Add(s)
			return nil
		}
		return table.Add(answer.Type, s)
	})
	switch {
	case err != nil:
		return fmt.Errorf("the answer cannot be read: %w", err)
	case o.plot && answer.Type == parser.ValueTypeMatrix:
		return chart.Draw(stdout, over, cmp.Or(width, 100), terminal.StyleOf(stdout))
	case answer.Type == parser.ValueTypeString:
		_, err = fmt.Fprintln(stdout, answer.Text)
		return err
	}
	return table.Close()
}

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
	a.form.Set("analyze", strconv.FormatBool(o.analyze))
	c, closed, err := o.open(a.form, stderr)
	if err != nil {
		return err
	}
	defer closed()
	answer, err := ask(ctx, c, "/explain", a.form, stderr)
	if err != nil {
		return err
	}
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
	_, err = io.WriteString(stdout, e.Tree())
	return err
}

// target is whom a command asks: the server at a URL, or, where the flags say what to read from, a
// promwarp inside this process.
type target struct {
	server   client.Flags
	settings config.Flags
	executor string
	exact    string
	progress bool
}

// add declares the flags.
func (t *target) add(cmd *kingpin.CmdClause) {
	t.server.Add(cmd, "")
	cmd.Flag("executor", "Who evaluates: auto, cpu, gpu or prometheus. Inside this process a GPU is used for gpu and with --gpu.mode=require alone, as it takes longer to start than most queries to evaluate.").Default("auto").EnumVar(&t.executor, "auto", "cpu", "gpu", "prometheus")
	cmd.Flag("exact", "How exact the answer to PromQL is: bits has Prometheus's very bits, 1e-12 lets five functions differ by that, relative. Otherwise as the server is set.").PlaceHolder("1e-12").EnumVar(&t.exact, "1e-12", "bits")
	cmd.Flag("progress", "Show progress on standard error even if that is no terminal.").BoolVar(&t.progress)
	t.settings.Quiet = true
	t.settings.Add(cmd, false)
}

// open returns who is asked, and puts who evaluates, and how exactly, into the request's form. Close
// ends it.
func (t *target) open(form url.Values, stderr io.Writer) (c *client.Client, closed func(), err error) {
	form.Set("executor", t.executor)
	if t.exact != "" {
		form.Set("exact", t.exact)
	}
	p := terminal.NewProgress(stderr, t.progress)
	if !t.settings.HasSource() {
		if c, err = t.server.Client("url", t.server.URL); err != nil {
			return nil, nil, err
		}
		c.Waiting = func() func() { return p.While("asking " + c.String()) }
		return c, func() {}, nil
	}
	if t.server.Given {
		return nil, nil, config.Usagef("--url names a server to ask, and --upstream.url, --tsdb.path and --config.file what to read from without one: give one or the other")
	}
	set, err := t.settings.Load()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case set.GPU.Mode == config.GPURequire:
	case t.executor == "gpu" && set.GPU.Mode == config.GPUAuto:
		set.GPU.Mode = config.GPURequire
	default:
		set.GPU.Mode = config.GPUOff
	}
	logger, err := config.NewLogger(set.Log, stderr)
	if err != nil {
		return nil, nil, config.Usage(err)
	}
	c, closed, err = server.Embed(set, logger)
	if err != nil {
		return nil, nil, err
	}
	c.Waiting = func() func() { return p.While("fetching and evaluating") }
	return c, closed, nil
}

// tell prints what an answer has beside its value.
func tell(r *compare.Reply, stderr io.Writer) {
	for _, w := range r.Warnings {
		fmt.Fprintln(stderr, "warning:", w)
	}
	for _, i := range r.Infos {
		fmt.Fprintln(stderr, "info:", i)
	}
}

// ask asks for an answer, and prints what it has beside its value.
func ask(ctx context.Context, c *client.Client, path string, form url.Values, stderr io.Writer) (*client.Answer, error) {
	a, err := c.Ask(ctx, path, form)
	if err != nil {
		return nil, err
	}
	tell(&a.Reply, stderr)
	return a, nil
}

// clause is the command that has those below it.
func clause(app *kingpin.Application, name, help string) *kingpin.CmdClause {
	if c := app.GetCommand(name); c != nil {
		return c
	}
	return app.Command(name, help)
}

const cacheHelp = "Show or drop what a promwarp keeps."

// cacheListCommand declares promwarp cache ls.
func cacheListCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := clause(app, "cache", cacheHelp).Command("ls", "List what a promwarp keeps, the largest selectors first.").HelpLong(`Examples:
  promwarp cache ls --limit=10
`)
	var server client.Flags
	limit := cmd.Flag("limit", "Most selectors to list, of each upstream.").Default("50").Int()
	format := cmd.Flag("format", "Form of the answer: table or json.").Short('o').Default("table").Enum("table", "json")
	server.Add(cmd, "")
	return cmd.FullCommand(), func(ctx context.Context) error {
		c, err := server.Client("url", server.URL)
		if err != nil {
			return err
		}
		answer, err := c.Get(ctx, "/api/v1/status/cache", url.Values{"limit": {strconv.Itoa(*limit)}})
		if err != nil {
			return err
		}
		if *format == "json" {
			_, err = fmt.Printf("%s\n", answer.Data)
			return err
		}
		var all []cache.Contents
		if err := json.Unmarshal(answer.Data, &all); err != nil {
			return err
		}
		return render.Caches(os.Stdout, all, terminal.Width(os.Stdout))
	}
}

// cacheDropCommand declares promwarp cache drop.
func cacheDropCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := clause(app, "cache", cacheHelp).Command("drop", "Have a promwarp that was started with --web.enable-admin-api forget samples, so that it fetches them again.").HelpLong(`Examples:
  promwarp cache drop '{job="a"}' --start=-2d --end=-1d
  promwarp cache drop --all
`)
	var server client.Flags
	selectors := cmd.Arg("selector", "Drop of what may match; all selectors if there is none.").Strings()
	start := cmd.Flag("start", "Drop from here on.").PlaceHolder("TIME").String()
	end := cmd.Flag("end", "Drop up to here.").PlaceHolder("TIME").String()
	all := cmd.Flag("all", "Drop everything.").Bool()
	server.Add(cmd, "")
	return cmd.FullCommand(), func(ctx context.Context) error {
		form := url.Values{"match[]": *selectors}
		for flag, text := range map[string]string{"start": *start, "end": *end} {
			if text == "" {
				continue
			}
			t, err := parseWhen(text, time.Now())
			if err != nil {
				return config.Usagef("--%s: %w", flag, err)
			}
			form.Set(flag, client.Stamp(t))
		}
		switch given := len(*selectors) > 0 || len(form) > 1; {
		case !given && !*all:
			return config.Usagef("say what to drop: selectors, --start and --end bound it, --all drops everything")
		case given && *all:
			return config.Usagef("--all drops everything: leave it out, or the selectors, --start and --end")
		case *all:
			form.Set("all", "true")
		}
		c, err := server.Client("url", server.URL)
		if err != nil {
			return err
		}
		answer, err := c.Ask(ctx, "/api/v1/admin/cache/drop", form)
		if err != nil {
			return err
		}
		var dropped cache.Dropped
		if err := json.Unmarshal(answer.Data, &dropped); err != nil {
			return err
		}
		_, err = fmt.Printf("dropped %d tiles of %d selectors\n", dropped.Tiles, dropped.Selectors)
		return err
	}
}
