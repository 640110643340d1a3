package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/engine/backtest"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
)

// trials are the rules that a request has tried, and how.
type trials struct {
	rules      []*backtest.Rule
	start, end time.Time
	whatIf     bool // other thresholds and durations are likely to be asked for
	moved      bool // the threshold is another
}

// readTrials reads the form of a backtest: rules as YAML, of which rule_group and alert choose some, or
// expr; and for one alert threshold, for and keep_firing_for.
func (a *API) readTrials(r *http.Request) (asked trials, err error) {
	content, expr, alert, group := []byte(r.FormValue("rules")), r.FormValue("expr"), r.FormValue("alert"), r.FormValue("rule_group")
	interval := time.Minute // as Prometheus has it
	if asked.start, err = promapi.TimeOr(r, "start", time.Time{}); err == nil {
		asked.end, err = promapi.TimeOr(r, "end", time.Now())
	}
	if err == nil {
		asked.whatIf, err = promapi.Bool(r, "what_if")
	}
	if err = cmp.Or(err, readDuration(r, "interval", &interval)); err != nil {
		return asked, err
	}
	switch {
	case asked.start.IsZero():
		return asked, promapi.WrongParameter("start", errors.New("give the time from which on the rules are tried"))
	case asked.end.Before(asked.start):
		return asked, promapi.WrongParameter("end", errors.New("it is before the start"))
	case interval < time.Millisecond:
		return asked, promapi.WrongParameter("interval", errors.New("give a duration such as 1m"))
	case (expr == "") == (len(content) == 0):
		return asked, promapi.WrongParameter("rules", errors.New("give the text of a rule file, or expr"))
	case expr != "":
		rule := rulefmt.Rule{Alert: cmp.Or(alert, "Alert"), Expr: expr}
		if content, err = yaml.Marshal(rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{{Name: "backtest", Rules: []rulefmt.Rule{rule}}}}); err != nil {
			return asked, err
		}
	}
	if asked.rules, err = backtest.Parse(r.FormValue("file"), content, interval, a.o.Parser); err != nil {
		return asked, promapi.WrongParameter("rules", err)
	}
	asked.rules = slices.DeleteFunc(asked.rules, func(r *backtest.Rule) bool {
		return alert != "" && r.Alert != alert || group != "" && r.Group != group
	})
	if len(asked.rules) == 0 {
		return asked, promapi.WrongParameter("rules", errors.New("there is no such alerting rule in them"))
	}
	return asked, asked.change(r)
}

// change changes the one rule as the request says.
func (asked *trials) change(r *http.Request) error {
	for _, name := range []string{"threshold", "for", "keep_firing_for"} {
		if r.FormValue(name) != "" && len(asked.rules) > 1 {
			return promapi.WrongParameter(name, errors.New("it is for one rule: choose that by alert, and rule_group if several have it"))
		}
	}
	rule, text := asked.rules[0], r.FormValue("threshold")
	if err := cmp.Or(readDuration(r, "for", &rule.For), readDuration(r, "keep_firing_for", &rule.KeepFiringFor)); err != nil || text == "" {
		return err
	}
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return promapi.WrongParameter("threshold", fmt.Errorf("it is no number: %.100q", text))
	case rule.Threshold == nil:
		return promapi.WrongParameter("threshold", fmt.Errorf("the expression of %q has no outermost comparison with a number, such as expr > 0.9: only for and keep_firing_for can be moved", rule.Alert))
	}
	rule.Threshold.Value, asked.moved = model.SampleValue(v), true
	return nil
}

// readDuration reads a parameter that is a duration, not a negative one, if it is there.
func readDuration(r *http.Request, parameter string, to *time.Duration) error {
	text := r.FormValue(parameter)
	if text == "" {
		return nil
	}
	d, err := promapi.Duration(text)
	if err != nil || d < 0 {
		return promapi.WrongParameter(parameter, fmt.Errorf("it is no duration such as 5m: %.100q", text))
	}
	*to = d.Truncate(time.Millisecond)
	return nil
}

// backtest says what alerting rules would have done.
func (a *API) backtest(w http.ResponseWriter, r *http.Request, t *turn) {
	asked, err := a.readTrials(r)
	if err != nil {
		a.wrongForm(w, err)
		return
	}
	t.request.Exact = cmp.Or(t.request.Exact, plan.Bits)
	lease := a.o.Memory.Lease(memory.Answers)
	defer lease.Release()
	source := &past{api: a, turn: t, retain: asked.whatIf}
	reports := []*backtest.Report{}
	for _, rule := range asked.rules {
		report, err := rule.Try(r.Context(), source, asked.start, asked.end, asked.whatIf || asked.moved)
		source.close()
		if err == nil {
			err = lease.Grow(r.Context(), bytesOf(report))
		}
		err = promapi.Plain(t.tooLarge(err))
		if _, typ := promapi.Classify(err); err != nil && (typ != promapi.Execution || len(asked.rules) == 1) {
			t.Turn.Evaluated(err)
			a.failed(w, err)
			return
		}
		if err != nil {
			report = &backtest.Report{Group: rule.Group, Alert: rule.Alert, Expr: rule.Expr.String(), Error: err.Error()}
		}
		reports = append(reports, report)
	}
	t.Turn.Evaluated(nil)
	warnings, infos := source.said.AsStrings("", mostAnnotations, mostAnnotations)
	promapi.Warned(w, map[string]any{"rules": reports}, warnings, infos)
}

// bytesOf is about what a report takes in memory and as JSON.
func bytesOf(r *backtest.Report) (n int64) {
	for _, a := range r.Alerts {
		n += 512 + 256*int64(len(a.Spells))
	}
	return n
}

// past is the backtest.Source that is a turn's engine.
type past struct {
	api     *API
	turn    *turn
	retain  bool
	queries []promql.Query // whose results are in use
	said    annotations.Annotations
}

// close closes the queries of a rule that was tried.
func (p *past) close() {
	for _, q := range p.queries {
		q.Close()
	}
	p.queries = nil
}

// Range implements backtest.Source.
func (p *past) Range(ctx context.Context, expr string, g plan.Grid, histograms bool) ([]plan.Row, error) {
	key := fmt.Sprint(expr, g, histograms, p.turn.request.Mode, p.turn.request.Exact)
	if p.retain {
		if rows, said, ok := p.api.tried.Get(key); ok {
			p.said.Merge(said)
			return rows, nil
		}
	}
	e := promapi.Evaluation{Query: expr, Start: time.UnixMilli(g.Start), End: time.UnixMilli(g.End()), Step: time.Duration(g.Interval) * time.Millisecond}
	q, err := p.api.o.Engine.NewQuery(ctx, p.turn.of(e, false))
	if err != nil {
		return nil, err
	}
	p.queries = append(p.queries, q)
	r := p.api.execute(ctx, p.turn, q)
	if r.Err != nil {
		return nil, r.Err
	}
	p.said.Merge(r.Warnings)
	rows := backtest.Rows(r.Value, g, histograms)
	if p.retain {
		rows = p.api.tried.Keep(key, rows, r.Warnings)
	}
	return rows, nil
}
