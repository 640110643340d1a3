package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/junitxml"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine/backtest"
	"github.com/promwarp/promwarp/engine/compare"
)

// backtestOptions are the flags of promwarp backtest.
type backtestOptions struct {
	target
	files        []string
	start, end   string
	path         string
	alert, group string
	interval     string
	threshold    string
	hold, keep   string
	expected     map[string]*[]string // by kind
	format       string
}

// backtestCommand declares promwarp backtest.
func backtestCommand(app *kingpin.Application) (string, func(context.Context) error) {
	cmd := app.Command("backtest", "Try alerting rules on the past: when each alert would have been pending and firing.").HelpLong(`Examples:
  promwarp backtest --start=-90d rules.yml
  promwarp backtest --upstream.url=http://prometheus:9090 --start=-30d rules.yml   # without a server
  promwarp backtest --start=-90d --alert=HighLoad --threshold=0.95 --for=10m rules.yml
  promwarp backtest --start=-30d -o junit --at-most='HighLoad=3/week' --must-fire='Down{job="api"}@2026-11-02T10:00:00Z..2026-11-02T11:00:00Z' rules.yml
`)
	o := backtestOptions{expected: map[string]*[]string{}}
	cmd.Arg("file", "Rule files of Prometheus.").Required().StringsVar(&o.files)
	cmd.Flag("start", "From when on to try the rules. All alerts begin inactive there.").PlaceHolder("TIME").Default("-30d").StringVar(&o.start)
	cmd.Flag("end", "Up to when.").PlaceHolder("TIME").Default("now").StringVar(&o.end)
	cmd.Flag("path", "Path under which a Prometheus loads the file, on which the times of evaluations depend; by default the file's own.").PlaceHolder("PATH").StringVar(&o.path)
	cmd.Flag("interval", "Interval of groups that name none: evaluation_interval of a Prometheus.").Default("1m").StringVar(&o.interval)
	cmd.Flag("alert", "Try this alert alone.").PlaceHolder("NAME").StringVar(&o.alert)
	cmd.Flag("group", "Try this group alone.").PlaceHolder("NAME").StringVar(&o.group)
	cmd.Flag("threshold", "Try one alert with another number in its outermost comparison.").PlaceHolder("NUMBER").StringVar(&o.threshold)
	cmd.Flag("for", "Try one alert with another for.").PlaceHolder("DURATION").StringVar(&o.hold)
	cmd.Flag("keep-firing-for", "Try one alert with another keep_firing_for.").PlaceHolder("DURATION").StringVar(&o.keep)
	for _, kind := range []struct{ name, form, help string }{
		{backtest.MustFire, "ALERT@START..END", "Fail unless the alert fires in that time. ALERT is a name, or has labels: Down{job=\"api\"}. May be repeated, as the next two."},
		{backtest.MustNotFire, "ALERT@START..END", "Fail if the alert fires in that time."},
		{backtest.AtMost, "ALERT=N/PERIOD", "Fail if the alert fires more often within any day, week or duration."},
	} {
		o.expected[kind.name] = cmd.Flag(kind.name, kind.help).PlaceHolder(kind.form).Strings()
	}
	cmd.Flag("format", "Form of the answer: text, json or junit.").Short('o').Default("text").EnumVar(&o.format, "text", "json", "junit")
	o.target.add(cmd)
	return cmd.FullCommand(), func(ctx context.Context) error {
		return runBacktest(ctx, o, os.Stdout, os.Stderr)
	}
}

// errUnmet makes the exit code tell that an expectation does not hold, errUntried that a rule failed.
var (
	errUnmet   = errors.New("expectations do not hold")
	errUntried = errors.New("rules could not be tried")
)

// tried is what promwarp backtest prints as JSON.
type tried struct {
	Rules        []*backtest.Report      `json:"rules"`
	Expectations []*backtest.Expectation `json:"expectations"`
}

// runBacktest tries all rules and prints what their alerts would have done.
func runBacktest(ctx context.Context, o backtestOptions, stdout, stderr io.Writer) error {
	now := time.Now()
	got := tried{Rules: []*backtest.Report{}, Expectations: []*backtest.Expectation{}} // no null in JSON
	asked, err := o.forms(now)
	if err != nil {
		return config.Usage(err)
	}
	for _, kind := range slices.Sorted(maps.Keys(o.expected)) {
		for _, text := range *o.expected[kind] {
			e, err := backtest.Expect(kind, text, func(s string) (time.Time, error) { return parseWhen(s, now) })
			if err != nil {
				return config.Usagef("--%s %w", kind, err)
			}
			got.Expectations = append(got.Expectations, e)
		}
	}
	c, closed, err := o.open(url.Values{}, stderr)
	if err != nil {
		return err
	}
	defer closed()
	for _, form := range asked {
		answer, err := ask(ctx, c, "/api/v1/backtest", form, stderr)
		var all tried
		var refused *compare.Refused
		switch {
		case err == nil:
			if err := json.Unmarshal(answer.Data, &all); err != nil {
				return err
			}
		case errors.As(err, &refused) && refused.Status == http.StatusBadRequest:
			return config.Usage(err)
		case errors.As(err, &refused) && refused.Status == http.StatusUnprocessableEntity:
			all.Rules = []*backtest.Report{{Group: form.Get("rule_group"), Alert: form.Get("alert"), Alerts: []*backtest.Alert{}, Error: err.Error()}}
		default:
			return err
		}
		got.Rules = append(got.Rules, all.Rules...)
	}
	for _, e := range got.Expectations {
		if err := e.Check(got.Rules); err != nil {
			return config.Usage(err)
		}
	}
	if err := got.print(o.format, stdout); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(got.Rules, func(r *backtest.Report) bool { return r.Error != "" }):
		return errUntried
	case slices.ContainsFunc(got.Expectations, func(e *backtest.Expectation) bool { return !e.Holds }):
		return errUnmet
	}
	return nil
}

// forms are the requests, one for all rules of a group that have one name.
func (o *backtestOptions) forms(now time.Time) (all []url.Values, err error) {
	over, err := (&request{start: o.start, end: o.end}).over(now)
	if err != nil {
		return nil, err
	}
	p := parser.NewParser(parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true})
	rules := 0
	for _, file := range o.files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := backtest.Parse(file, content, time.Minute, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		known := map[[2]string]bool{}
		for _, r := range found {
			if o.alert != "" && o.alert != r.Alert || o.group != "" && o.group != r.Group {
				continue
			}
			if rules++; known[[2]string{r.Group, r.Alert}] {
				continue
			}
			known[[2]string{r.Group, r.Alert}] = true
			all = append(all, url.Values{
				"rules": {string(content)}, "file": {cmp.Or(o.path, file)}, "rule_group": {r.Group}, "alert": {r.Alert}, "interval": {o.interval},
				"start": {client.Stamp(over.Start)}, "end": {client.Stamp(over.End)}, "executor": {o.executor}, "exact": {cmp.Or(o.exact, "bits")},
				"threshold": {o.threshold}, "for": {o.hold}, "keep_firing_for": {o.keep},
			})
		}
	}
	switch {
	case rules == 0:
		return nil, fmt.Errorf("there is no such alerting rule in %s", strings.Join(o.files, ", "))
	case rules > 1 && o.threshold+o.hold+o.keep != "":
		return nil, fmt.Errorf("--threshold, --for and --keep-firing-for are for one alert, and there are %d: choose one by --alert, and --group if several have it", rules)
	}
	return all, nil
}

// print prints what was tried. As JUnit's, each rule is a test case, which fails if it could not be tried, and
// each expectation.
func (t *tried) print(format string, w io.Writer) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(t)
	case "junit":
		var all junitxml.JUnitXML
		rules, expectations := all.Suite("rules"), all.Suite("expectations")
		for _, r := range t.Rules {
			if c := rules.Case(r.Group + " / " + r.Alert); r.Error != "" {
				c.Abort(errors.New(r.Error))
			}
		}
		for _, e := range t.Expectations {
			if c := expectations.Case(e.Kind + " " + e.Text); !e.Holds {
				c.Fail(e.Failure)
			}
		}
		return all.WriteXML(w)
	}
	style := terminal.StyleOf(w)
	for _, r := range t.Rules {
		if err := printReport(w, r, style); err != nil {
			return err
		}
	}
	for _, e := range t.Expectations {
		text := style.Good("holds") + "  --" + e.Kind + " " + e.Text
		if !e.Holds {
			text = style.Bad("FAILS") + "  --" + e.Kind + " " + e.Text + ": " + e.Failure
		}
		fmt.Fprintln(w, text)
	}
	return nil
}

// mostListed is how many alerts, and firings, of a rule are printed; JSON has all.
const mostListed = 20

// printReport prints what the alerts of a rule did.
func printReport(w io.Writer, r *backtest.Report, style terminal.Style) error {
	fmt.Fprintf(w, "%s of group %s", r.Alert, r.Group)
	if r.Error != "" {
		_, err := fmt.Fprintf(w, ": %s\n\n", style.Bad(r.Error))
		return err
	}
	fmt.Fprintf(w, ", every %s, for %s, keep_firing_for %s", span(r.Interval), span(r.For), span(r.KeepFiringFor))
	if r.Threshold != nil {
		fmt.Fprintf(w, ", threshold %s", r.Threshold.Value)
	}
	fmt.Fprintf(w, "\n%s to %s: fired %d times, flapped %d times, calmed down %d times\n", moment(r.Start), moment(r.End), r.Fired, r.Flapped, r.Calmed)
	if r.Failed > 0 {
		fmt.Fprintln(w, style.Bad(fmt.Sprintf("%d of %d evaluations fail: %s", r.Failed, r.Steps, r.Failure)))
	}
	for _, n := range r.Notes {
		fmt.Fprintln(w, style.Note("note: "+n))
	}
	rows := [][]string{{"FIRED", "FLAPPED", "CALMED", "FIRING", "LONGEST", "PENDING", "ALERT"}}
	firings := [][]string{{"FIRED AT", "FOR", "VALUE", "ALERT"}}
	for _, a := range r.Alerts {
		rows = append(rows, []string{fmt.Sprint(a.Fired), fmt.Sprint(a.Flapped), fmt.Sprint(a.Calmed), span(a.Firing), span(a.Longest), span(a.Pending), a.Labels.String()})
		for _, s := range a.Spells {
			if s.State != "firing" {
				continue
			}
			lasted := span(s.End.Sub(s.Start).Seconds())
			if s.Open {
				lasted += " and on"
			}
			firings = append(firings, []string{moment(s.Start), lasted, s.Value.String(), a.Labels.String()})
		}
	}
	slices.SortStableFunc(firings[1:], func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	for _, cells := range [][][]string{rows, firings} {
		if len(cells) == 1 {
			continue
		}
		listed := cells[:min(len(cells), mostListed+1)]
		if err := render.Table(w, listed, len(cells[0])-1, terminal.Width(w)); err != nil {
			return err
		}
		if more := len(cells) - len(listed); more > 0 {
			fmt.Fprintln(w, style.Dim(fmt.Sprintf("and %d more, which --format=json has", more)))
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// moment is a time as text, and span a number of seconds.
func moment(t model.Time) string  { return t.Time().UTC().Format(time.RFC3339) }
func span(seconds float64) string { return model.Duration(seconds * float64(time.Second)).String() }
