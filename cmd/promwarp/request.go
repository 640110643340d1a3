package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/render"
)

// resampleFields are the fields of resample requests, which are flags of the same names.
var resampleFields = []struct{ name, placeholder, help string }{
	{"metric", "NAME", "Resample the stored samples of this metric, in place of PromQL; docs/query.md has the fields."},
	{"every", "DURATION", "Length of a bucket: 5m, 1d, 1M."},
	{"period", "DURATION", "Length of the window of a bucket's samples; by default as every."},
	{"timezone", "ZONE", "Whose calendar and clock buckets follow, such as Europe/Berlin."},
	{"origin", "TIME", "When a bucket begins: a time, start or epoch."},
	{"offset", "DURATION", "Buckets begin so much later."},
	{"closed", "left", "Which end of a bucket belongs to it: left or right."},
	{"label", "left", "Which end of a bucket labels it: left or right."},
	{"aggregates", "LIST", "What is made of a bucket's samples: mean,max,95pct."},
	{"by", "LABELS", "Labels to group by; none is one group of all."},
	{"without", "LABELS", "Group by all labels but these."},
	{"reaggregate", "NAME", "Aggregate of the values that a group's series have in a bucket."},
	{"fill", "none", "What buckets without samples get: none, null, prev, linear or a number."},
}

// request is what is asked for: PromQL at one time or over a range, or a resample request.
type request struct {
	expr                 string
	at, start, end, step string
	match                []string
	fields               []string // by the order of resampleFields
	given                []bool   // of each of these
	limit                string
}

// add declares the flags and the expression.
func (r *request) add(cmd *kingpin.CmdClause) {
	cmd.Flag("time", "When to evaluate.").PlaceHolder("now").StringVar(&r.at)
	cmd.Flag("start", "Start of a range. Times are RFC 3339, seconds since the epoch, now, or relative such as -24h.").PlaceHolder("TIME").StringVar(&r.start)
	cmd.Flag("end", "End of a range.").PlaceHolder("now").StringVar(&r.end)
	cmd.Flag("step", "Step of a range; by default about 250 of them.").PlaceHolder("DURATION").StringVar(&r.step)
	cmd.Flag("limit", "Most series of the answer.").PlaceHolder("N").StringVar(&r.limit)
	cmd.Flag("match", "Resample the stored samples of this selector; may be repeated.").PlaceHolder("SELECTOR").StringsVar(&r.match)
	r.fields, r.given = make([]string, len(resampleFields)), make([]bool, len(resampleFields))
	for i, f := range resampleFields {
		cmd.Flag(f.name, f.help).PlaceHolder(f.placeholder).IsSetByUser(&r.given[i]).StringVar(&r.fields[i])
	}
	cmd.Arg("expr", "The PromQL expression.").StringVar(&r.expr)
}

// asked is a request as a form.
type asked struct {
	form url.Values
	path string       // of the door that answers with JSON
	over render.Range // of a range; its step is 0 for an instant and for a resample request
}

func (a *asked) resampled() bool { return a.path == "/query" }

// form reads the request. What is wrong with it is a UsageError.
func (r *request) form(now time.Time) (a asked, err error) {
	a.form = url.Values{}
	resample := len(r.match) > 0
	for i, given := range r.given {
		if given {
			resample = true
			a.form.Set(resampleFields[i].name, r.fields[i])
		}
	}
	if r.limit != "" {
		a.form.Set("limit", r.limit)
	}
	switch {
	case resample && (r.expr != "" || r.at != "" || r.step != ""):
		return a, config.Usagef("--metric, --match, --every and the like make a resample request, which has neither an expression nor --time nor --step: leave out one or the other")
	case !resample && r.expr == "":
		return a, config.Usagef("give a PromQL expression, or --metric or --match for a resample request")
	case resample:
		a.path = "/query"
		a.form["match[]"] = r.match
		for name, text := range map[string]string{"start": r.start, "end": r.end} {
			if text != "" {
				a.form.Set(name, text)
			}
		}
		return a, nil
	}
	if a.over, err = r.over(now); err != nil {
		return a, config.Usage(err)
	}
	path, form := client.Form(r.expr, a.over.Start, a.over.End, a.over.Step)
	a.path = path
	maps.Copy(a.form, form)
	return a, nil
}

// over reads the flags that say when. An instant query has no step.
func (r *request) over(now time.Time) (o render.Range, err error) {
	ranged := r.start != "" || r.end != "" || r.step != ""
	switch {
	case ranged && r.at != "":
		return o, errors.New("--time is for an instant query, --start, --end and --step for a range query; give one or the other")
	case ranged && r.start == "":
		return o, errors.New("a range query needs --start, such as --start=-24h")
	case !ranged:
		if o.Start, err = parseWhen(cmp.Or(r.at, "now"), now); err != nil {
			return o, fmt.Errorf("--time: %w", err)
		}
		o.End = o.Start
		return o, nil
	}
	if o.Start, err = parseWhen(r.start, now); err != nil {
		return o, fmt.Errorf("--start: %w", err)
	}
	if o.End, err = parseWhen(cmp.Or(r.end, "now"), now); err != nil {
		return o, fmt.Errorf("--end: %w", err)
	}
	if o.End.Before(o.Start) {
		return o, fmt.Errorf("--end (%s) is before --start (%s)", o.End.Format(time.RFC3339), o.Start.Format(time.RFC3339))
	}
	o.Step = defaultStep(o.Start, o.End)
	if r.step != "" {
		if o.Step, err = parseStep(r.step); err != nil {
			return o, fmt.Errorf("--step: %w", err)
		}
	}
	return o, nil
}

// parseWhen reads a time: RFC 3339, seconds since the epoch, now, or relative
// to now such as -24h or now-1d.
func parseWhen(text string, now time.Time) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if t, err := promapi.Time(text); err == nil {
		return t, nil
	}
	relative := strings.TrimPrefix(text, "now")
	if rest, ok := strings.CutPrefix(relative, "-"); ok {
		if d, err := model.ParseDuration(rest); err == nil {
			return now.Add(-time.Duration(d)), nil
		}
	} else if rest, ok := strings.CutPrefix(relative, "+"); ok {
		if d, err := model.ParseDuration(rest); err == nil {
			return now.Add(time.Duration(d)), nil
		}
	}
	return time.Time{}, fmt.Errorf("not a time: %q; write one such as 2026-01-02T15:04:05Z, 1767366245, now or -24h", text)
}

// parseStep reads seconds or a Prometheus duration.
func parseStep(text string) (time.Duration, error) {
	d, err := promapi.Duration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("not a step: %q; write one such as 30s, 5m or 60", text)
	}
	return d, nil
}

// defaultStep spreads about 250 points over a range, on a step that is at least
// a second, as Prometheus's page does.
func defaultStep(start, end time.Time) time.Duration {
	return max(end.Sub(start)/250, time.Second).Truncate(time.Second)
}
