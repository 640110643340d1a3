package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	commonconfig "github.com/prometheus/common/config"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/workload"
	"github.com/promwarp/promwarp/engine/compare"
	"github.com/promwarp/promwarp/plan"
)

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
	page       string
	notes      []string // what was filled in and left out
}

// compareCommand declares promwarp compare.
func compareCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("compare", "Ask promwarp and Prometheus the queries of files, and compare answers to the bit, and times.").HelpLong(`Examples:
  promwarp compare --upstream.url=http://prometheus:9090 queries.txt       # promwarp runs in this process
  promwarp compare --url=http://promwarp:9201 --upstream.url=http://prometheus:9090 dashboard.json
  promwarp compare --url=http://promwarp:9201 rules.yml                # with Prometheus's engine inside promwarp
`)
	var o compareOptions
	o.variables = map[string]string{}
	cmd.Arg("file", "Files of queries: one a line; a list in YAML; rules; a Grafana dashboard's JSON, of either schema. - is standard input, a query a line.").Required().StringsVar(&o.files)
	cmd.Flag("upstream.url", "Base URL of the Prometheus to compare with. Without it, promwarp is compared with Prometheus's engine inside it.").PlaceHolder("URL").StringVar(&o.upstream)
	renamed(cmd, "upstream", "upstream.url", &o.upstream)
	o.server.Add(cmd, "Without it, promwarp runs inside this process and reads from --upstream.url.")
	o.addTimes(cmd)
	cmd.Flag("rounds", "How often each side is asked; promwarp once more before.").Default("3").IntVar(&o.rounds)
	cmd.Flag("exact", "How exact promwarp's answers are: bits has Prometheus's very bits, 1e-12 lets five functions differ by that, relative. Otherwise as the server is set.").PlaceHolder("1e-12").EnumVar(&o.exact, "1e-12", "bits")
	cmd.Flag("format", "Form of the answer: table or json.").Short('o').Default("table").EnumVar(&o.format, "table", "json")
	cmd.Flag("html", "Write a page with the comparison, to show to others.").PlaceHolder("FILE").StringVar(&o.page)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runCompare(ctx, o, os.Stdin, os.Stdout, os.Stderr)
	}
}

// addTimes declares the flags that say when queries are asked, and what variables stand for.
func (o *compareOptions) addTimes(cmd *kingpin.CmdClause) {
	cmd.Flag("start", "Start of the range; by default a dashboard's own, or -1d.").PlaceHolder("TIME").StringVar(&o.start)
	cmd.Flag("end", "End of the range, and the time of rules; by default -10m, as newer samples may differ.").PlaceHolder("TIME").StringVar(&o.end)
	cmd.Flag("step", "Step of the range; by default about 250 of them.").PlaceHolder("DURATION").StringVar(&o.step)
	cmd.Flag("scrape-interval", "Scrape interval, from which $__rate_interval is made.").Default("15s").DurationVar(&o.scrape)
	cmd.Flag("var", "Value of a dashboard's variable; may be repeated. Without it, the one that the dashboard was saved with.").PlaceHolder("NAME=VALUE").StringMapVar(&o.variables)
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
		return config.Usagef("give --upstream.url=http://prometheus:9090, the Prometheus to compare with, or --url, a promwarp")
	}
	queries, err := o.read(stdin, stderr)
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
		path, form := client.Form(q.Expr, q.over.Start, q.over.End, q.over.Step)
		if q.Instant {
			path, form = client.Form(q.Expr, q.over.End, q.over.End, 0)
		}
		row, err := compare.Measure(ctx, prometheus.Side(path, form, prometheus.extra), promwarp.Side(path, form, promwarp.extra), compare.Rounds{Prometheus: o.rounds, Repeated: o.rounds})
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

// query is one of those compared, and when it is asked.
type query struct {
	workload.Query
	over render.Range
}

// settled is how far before now samples no longer change, as a rule.
const settled = 10 * time.Minute

// over is when the queries of a file are asked. Own is a dashboard's range; note says what became of it.
func (o *compareOptions) over(own workload.Range, now time.Time) (over render.Range, note string, err error) {
	r := request{start: cmp.Or(o.start, "-1d"), end: cmp.Or(o.end, "-10m"), step: o.step}
	if over, err = r.over(now); err != nil || own.From == "" || o.start != "" || o.end != "" {
		return over, "", err
	}
	theirs, failure := (&request{start: own.From, end: own.To, step: o.step}).over(now)
	if failure != nil {
		return over, fmt.Sprintf("its time range %s to %s is replaced by the last day, as promwarp compare cannot tell it; --start and --end set one", own.From, own.To), nil
	}
	note = fmt.Sprintf("its time range is %s to %s", own.From, own.To)
	if late := theirs.End.Sub(now.Add(-settled)); late > 0 {
		theirs.Start, theirs.End = theirs.Start.Add(-late), theirs.End.Add(-late)
		note += fmt.Sprintf(", asked for %s earlier, as the newest samples may differ", late.Round(time.Second))
	}
	return theirs, note, nil
}

// read reads the files, and says what of dashboards was filled in.
func (o *compareOptions) read(stdin io.Reader, stderr io.Writer) (all []query, err error) {
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
		over, note, err := o.over(workload.RangeOf(file, content), time.Now())
		if err != nil {
			return nil, config.Usage(err)
		}
		over.Start, over.End = over.Start.Truncate(over.Step), over.End.Truncate(over.Step)
		w, err := workload.Read(file, content, workload.Options{Step: over.Step, Range: over.End.Sub(over.Start), Scrape: o.scrape, Variables: o.variables})
		if note != "" {
			w.Notes = append([]string{note}, w.Notes...)
		}
		for _, note := range w.Notes {
			o.notes = append(o.notes, file+": "+note)
			fmt.Fprintln(stderr, file+": "+note)
		}
		if err != nil {
			return nil, config.Usage(err)
		}
		for _, q := range w.Queries {
			all = append(all, query{q, over})
		}
	}
	return all, nil
}

// side is one of those compared.
type side struct {
	*client.Client
	extra url.Values // parameters of each request
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
		if prometheus.Client, err = o.server.Client("upstream.url", o.upstream); err != nil {
			return prometheus, promwarp, nil, err
		}
		o.upstream = prometheus.String() // as it may be shown
	}
	if o.server.URL != "" {
		if promwarp.Client, err = o.server.Client("url", o.server.URL); err == nil {
			o.server.URL = promwarp.String()
		}
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
	return server.Embed(set, logger)
}

// report prints what was found of a number of queries, and is an error where answers differ.
func (o *compareOptions) report(ctx context.Context, rows []compare.Row, queries int, stdout io.Writer) error {
	different := slices.ContainsFunc(rows, func(r compare.Row) bool { return r.Verdict == compare.Different })
	same := slices.ContainsFunc(rows, func(r compare.Row) bool { return r.Compared() })
	err := o.writePage(rows)
	if err != nil {
		return err
	}
	if o.format == "json" {
		e := json.NewEncoder(stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(rows)
	} else {
		fmt.Fprintln(stdout, comparedTimes)
		err = reportComparison(stdout, rows, terminal.Width(stdout))
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

// comparedTimes says what times there are in tables and pages.
const comparedTimes = "Times in ms: Prometheus's, and promwarp's at first and when asked again, evaluated or remembered."

//go:embed compare.html
var comparePage string

// writePage writes the page that --html names.
func (o *compareOptions) writePage(rows []compare.Row) error {
	if o.page == "" {
		return nil
	}
	f, err := os.Create(o.page)
	if err != nil {
		return config.Usagef("--html: %w", err)
	}
	var summary strings.Builder
	summarizeComparison(&summary, rows, false)
	page := template.Must(template.New("").Funcs(template.FuncMap{"cells": timesOf}).Parse(comparePage))
	err = page.Execute(f, map[string]any{
		"Files": o.files, "Prometheus": o.upstream, "Promwarp": o.server.URL, "Now": time.Now().UTC().Format(time.RFC1123),
		"Times": comparedTimes, "Summary": strings.TrimSpace(summary.String()), "Notes": o.notes, "Rows": rows,
	})
	return errors.Join(err, f.Close())
}

// timesOf are the cells of a row's times and speed-ups.
func timesOf(r compare.Row) []string {
	repeated, remembered := r.Repeated, 0.0
	if r.Remembered {
		repeated, remembered = 0, r.Repeated
	}
	return []string{ms(r.Prometheus), ms(r.First), ms(repeated), ms(remembered), times(r.Prometheus, r.First) + ", " + times(r.Prometheus, repeated)}
}

// reportComparison prints rows as a table of width characters, 0 for any, what differs, and a summary.
func reportComparison(w io.Writer, rows []compare.Row, width int) error {
	style := terminal.StyleOf(w)
	cells := [][]string{{"PROMETHEUS", "FIRST", "REPEATED", "REMEMBERED", "SPEED-UP", "ANSWER", "PANEL", "QUERY"}}
	named := slices.ContainsFunc(rows, func(r compare.Row) bool { return r.From != "" })
	for _, r := range rows {
		cells = append(cells, append(timesOf(r), string(r.Verdict), r.From, strings.Join(strings.Fields(r.Query), " ")))
	}
	if panel := len(cells[0]) - 2; !named {
		for i, row := range cells {
			cells[i] = slices.Delete(row, panel, panel+1)
		}
	}
	if err := render.Table(w, cells, len(cells[0])-1, width); err != nil {
		return err
	}
	for _, r := range rows {
		switch {
		case r.Verdict == compare.Different:
			fmt.Fprintf(w, "\n%s: %s\n  %s\n", style.Bad(string(r.Verdict)), r.Query, r.Detail)
			if r.Hint != "" {
				fmt.Fprintf(w, "  %s\n", style.Note(r.Hint))
			}
		case r.Detail != "":
			fmt.Fprintf(w, "\n%s: %s\n  %s\n", style.Note(string(r.Verdict)), r.Query, r.Detail)
		}
	}
	summarizeComparison(w, rows, style)
	return nil
}

// summarizeComparison prints how many answers are the same, and the means of the speed-ups.
func summarizeComparison(w io.Writer, rows []compare.Row, style terminal.Style) {
	count := map[compare.Verdict]int{}
	first, repeated, slowest := 0.0, 0.0, 0.0
	n, again, remembered, empty := 0, 0, 0, 0
	for _, r := range rows {
		count[r.Verdict]++
		if r.Verdict == compare.Same && r.Repeated > 0 && r.First > 0 && r.Prometheus > 0 {
			first += math.Log(r.Prometheus / r.First)
			if r.Remembered {
				remembered++
			} else {
				repeated += math.Log(r.Prometheus / r.Repeated)
				again++
			}
			slowest = max(slowest, r.Prometheus)
			n++
		}
		if r.Empty {
			empty++
		}
	}
	text := fmt.Sprintf("%d of %d answers are the same to the bit", count[compare.Same], len(rows))
	if count[compare.Different] > 0 {
		text = style.Bad(fmt.Sprintf("%s, %d differ", text, count[compare.Different]))
	} else if count[compare.Same] > 0 {
		text = style.Good(text)
	}
	fmt.Fprintf(w, "\n%s", text)
	if n := count[compare.NotCompared] + count[compare.Undecided]; n > 0 {
		fmt.Fprintf(w, ", %d could not be compared", n)
	}
	fmt.Fprintln(w, ".")
	if empty > 0 {
		fmt.Fprintf(w, "%d of them are empty, which says little: --start and --end set the time that is asked for.\n", empty)
	}
	if n > 0 {
		fmt.Fprintf(w, "promwarp is %s as fast at first", times(math.Exp(first/float64(n)), 1))
		if again > 0 {
			fmt.Fprintf(w, " and %s when asked again", times(math.Exp(repeated/float64(again)), 1))
		}
		fmt.Fprintln(w, " (geometric means).")
	}
	if remembered > 0 {
		fmt.Fprintf(w, "Remembered results answer %d of them when asked again: that time is no speed-up of evaluating. --cache.results-bytes=0 remembers none.\n", remembered)
	}
	if n > 0 && slowest < quickQuery {
		fmt.Fprintf(w, "Prometheus takes less than %.0f ms for each of them: promwarp is for queries that take longer.\n", quickQuery)
	}
}

// quickQuery is the time of a query in ms below which promwarp has nothing to save.
const quickQuery = 10.0

func ms(f float64) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", f)
}

func times(a, b float64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	if a/b < 0.1 {
		return fmt.Sprintf("%.2g×", a/b)
	}
	return fmt.Sprintf("%.1f×", a/b)
}
