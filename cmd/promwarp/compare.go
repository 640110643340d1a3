package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"
	commonconfig "github.com/prometheus/common/config"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/workload"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
)

func init() { commands = append(commands, compareCommand) }

// compareOptions are the flags of promwarp compare.
type compareOptions struct {
	server     client.Flags
	upstream   string
	files      []string
	start, end string
	step       string
	scrape     time.Duration
	variables  map[string]string
	rounds     int
	exact      string
	format     string
}

// compareCommand declares promwarp compare.
func compareCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("compare", "Ask promwarp and Prometheus the queries of files, and compare answers to the bit, and times.").HelpLong(`Examples:
  promwarp compare --upstream=http://prometheus:9090 queries.txt       # promwarp runs in this process
  promwarp compare --url=http://promwarp:9201 --upstream=http://prometheus:9090 dashboard.json
  promwarp compare --url=http://promwarp:9201 rules.yml                # with Prometheus's engine inside promwarp
`)
	var o compareOptions
	o.variables = map[string]string{}
	cmd.Arg("file", "Files of queries: one a line; a list in YAML; rules; a Grafana dashboard's JSON, of either schema. - is standard input, a query a line.").Required().StringsVar(&o.files)
	cmd.Flag("upstream", "Base URL of the Prometheus to compare with. Without it, promwarp is compared with Prometheus's engine inside it.").PlaceHolder("URL").StringVar(&o.upstream)
	o.server.Add(cmd, "Without it, promwarp runs inside this process and reads from --upstream.")
	cmd.Flag("start", "Start of the range.").Default("-1d").StringVar(&o.start)
	cmd.Flag("end", "End of the range, and the time of rules; further back than the newest samples, which may differ.").Default("-10m").StringVar(&o.end)
	cmd.Flag("step", "Step of the range; by default about 250 of them.").PlaceHolder("DURATION").StringVar(&o.step)
	cmd.Flag("scrape-interval", "Scrape interval, from which $__rate_interval is made.").Default("15s").DurationVar(&o.scrape)
	cmd.Flag("var", "Value of a dashboard's variable; may be repeated. Without it, the one that the dashboard was saved with.").PlaceHolder("NAME=VALUE").StringMapVar(&o.variables)
	cmd.Flag("rounds", "How often each side is asked; promwarp once more before.").Default("3").IntVar(&o.rounds)
	cmd.Flag("exact", "How exact promwarp's answers are: bits has Prometheus's very bits, 1e-12 lets five functions differ by that, relative. Otherwise as the server is set.").PlaceHolder("1e-12").EnumVar(&o.exact, "1e-12", "bits")
	cmd.Flag("format", "Form of the answer: table or json.").Short('o').Default("table").EnumVar(&o.format, "table", "json")
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runCompare(ctx, o, os.Stdin, os.Stdout, os.Stderr)
	}
}

// errDifferent makes the exit code tell that answers differ, errNothing that there were none to compare.
var (
	errDifferent = errors.New("answers differ")
	errNothing   = errors.New("nothing could be compared: no query has an answer with samples on both sides")
)

// runCompare compares all queries of all files.
func runCompare(ctx context.Context, o compareOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	switch {
	case o.rounds < 1:
		return config.Usagef("--rounds must be at least 1")
	case o.server.URL == "" && o.upstream == "":
		return config.Usagef("give --upstream=http://prometheus:9090, the Prometheus to compare with, or --url, a promwarp")
	}
	over, err := (&request{start: o.start, end: o.end, step: o.step}).over(time.Now())
	if err != nil {
		return config.Usage(err)
	}
	over.Start, over.End = over.Start.Truncate(over.Step), over.End.Truncate(over.Step)
	queries, err := o.read(stdin, stderr, workload.Options{Step: over.Step, Range: over.End.Sub(over.Start), Scrape: o.scrape, Variables: o.variables})
	if err != nil {
		return err
	}
	prometheus, promwarp, stop, err := o.sides(ctx, stderr)
	if err != nil {
		return err
	}
	defer stop()

	p := terminal.NewProgress(stderr, false)
	rows := []compare.Row{} // no null in JSON
	for i, q := range queries {
		p.Show("%d of %d: %s", i+1, len(queries), q.Expr)
		path, form := client.Ranged, url.Values{
			"query": {q.Expr}, "start": {stamp(over.Start)}, "end": {stamp(over.End)}, "step": {strconv.FormatFloat(over.Step.Seconds(), 'f', -1, 64)},
		}
		if q.Instant {
			path, form = client.Instant, url.Values{"query": {q.Expr}, "time": {stamp(over.End)}}
		}
		row, err := compare.Measure(ctx, prometheus.ask(path, form), promwarp.ask(path, form), compare.Rounds{Prometheus: o.rounds, Repeated: o.rounds})
		if err != nil {
			break // interrupted
		}
		row.Query, row.From, row.Remembered = q.Expr, q.From, row.Compared() && remembers(ctx, promwarp.Client, form)
		if row.Verdict == compare.Different && o.exact != string(plan.Bits) {
			row.Hint = compare.HintOf(q.Expr)
		}
		rows = append(rows, row)
	}
	p.Clear()
	return o.report(ctx, rows, len(queries), stdout)
}

// read reads the files, and says what of dashboards was filled in.
func (o *compareOptions) read(stdin io.Reader, stderr io.Writer, options workload.Options) (all []workload.Query, err error) {
	for _, file := range o.files {
		var content []byte
		if file == "" { // kingpin's reading of -
			file = "standard input"
			content, err = io.ReadAll(stdin)
		} else {
			content, err = os.ReadFile(file)
		}
		if err != nil {
			return nil, config.Usage(err)
		}
		w, err := workload.Read(file, content, options)
		for _, note := range w.Notes {
			fmt.Fprintf(stderr, "%s: %s\n", file, note)
		}
		if err != nil {
			return nil, config.Usage(err)
		}
		all = append(all, w.Queries...)
	}
	return all, nil
}

// side is one of those compared.
type side struct {
	*client.Client
	extra url.Values // parameters of each request
}

func (s side) ask(path string, form url.Values) compare.Side {
	form = maps.Clone(form)
	maps.Copy(form, s.extra)
	return func(ctx context.Context) (*compare.Answer, error) {
		a, err := s.Ask(ctx, path, form)
		if err != nil {
			return nil, err
		}
		return a.Parsed()
	}
}

// rememberedSteps is in an explanation of a query that was answered from results of earlier ones.
var rememberedSteps = regexp.MustCompile(`"kept_steps":\s*[1-9]`)

// remembers reports whether a promwarp that was asked for a query answers it from remembered results.
func remembers(ctx context.Context, promwarp *client.Client, form url.Values) bool {
	form = maps.Clone(form)
	form.Set("analyze", "true")
	a, err := promwarp.Ask(ctx, "/explain", form)
	return err == nil && rememberedSteps.Match(a.Data)
}

// sides are those compared. Both answer, or this fails.
func (o *compareOptions) sides(ctx context.Context, stderr io.Writer) (prometheus, promwarp side, stop func(), err error) {
	stop = func() {}
	if o.upstream != "" {
		if prometheus.Client, err = o.server.Client("upstream", o.upstream); err != nil {
			return prometheus, promwarp, nil, err
		}
	}
	if o.server.URL != "" {
		promwarp.Client, err = o.server.Client("url", o.server.URL)
	} else {
		promwarp.Client, stop, err = o.embed(prometheus.Client, stderr)
	}
	if err != nil {
		return prometheus, promwarp, nil, err
	}
	if o.upstream == "" {
		prometheus = side{promwarp.Client, url.Values{"executor": {"prometheus"}}}
	}
	if o.exact != "" {
		promwarp.extra = url.Values{"exact": {o.exact}}
	}
	for _, s := range []side{prometheus, promwarp} {
		if _, err := s.Ask(ctx, client.Instant, url.Values{"query": {"1"}}); err != nil {
			stop()
			return prometheus, promwarp, nil, err
		}
	}
	return prometheus, promwarp, stop, nil
}

// embed starts a promwarp inside this process that reads from the Prometheus that it is compared with.
func (o *compareOptions) embed(from *client.Client, stderr io.Writer) (*client.Client, func(), error) {
	set := config.Default()
	set.Log.Level = "warn"
	set.Divide()
	remote := config.DefaultRemoteRead()
	remote.URL = &commonconfig.URL{URL: from.URL(config.ReadPath)}
	var err error
	if remote.HTTPClientConfig, err = o.server.HTTPConfig(); err != nil {
		return nil, nil, err
	}
	set.ReadFrom(remote)
	logger, err := config.NewLogger(set.Log, stderr)
	if err != nil {
		return nil, nil, err
	}
	return client.Embed(set, logger)
}

// report prints what was found of so many queries, and is an error where answers differ.
func (o *compareOptions) report(ctx context.Context, rows []compare.Row, queries int, stdout io.Writer) error {
	different, same := false, false
	for _, r := range rows {
		different = different || r.Verdict == compare.Different
		same = same || r.Compared()
	}
	var err error
	if o.format == "json" {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(rows)
	} else {
		fmt.Fprintln(stdout, "Times in ms: Prometheus's, and promwarp's at first and when asked again.")
		style := terminal.StyleOf(stdout)
		if err = reportComparison(stdout, rows, terminal.Width(stdout), style); err == nil {
			summarizeComparison(stdout, rows, style)
		}
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("interrupted after %d of %d queries", len(rows), queries)
	case different:
		return errDifferent
	case !same:
		return errNothing
	}
	return nil
}
