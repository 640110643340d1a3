package backtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"

	"github.com/promwarp/promwarp/plan"
)

// Source evaluates expressions over a grid. Floating-point results are as Prometheus's engine has them; a
// native histogram is a value of 0, and is left out if they are not wanted.
type Source interface {
	Range(ctx context.Context, expr string, g plan.Grid, histograms bool) ([]plan.Row, error)
}

// trial is a rule under trial.
type trial struct {
	rule   *Rule
	from   Source
	first  time.Time // evaluation; step k is k intervals later
	steps  int
	grid   plan.Grid // of samples: query_offset earlier
	alerts []*Alert
	spells int
	// episodes is what an alert does whose series is there for a number of steps and not again.
	episodes map[int][]Spell
	report   *Report
}

// presence is a series of the expression's result at consecutive steps.
type presence struct {
	alert      *Alert
	first, end int // step, and the one behind the last
	values     []float64
}

// mostSpells bounds how often the alerts of a rule may change, and mostPresences how often the series
// of its expression may come and go.
const (
	mostSpells    = 100_000
	mostPresences = 300_000
	mostActions   = 20  // of a label's template
	longLabels    = 512 // bytes of an alert's labels that count as another change
)

// errTooMany is the error of a rule that changes too often.
func (t *trial) errTooMany() error {
	return fmt.Errorf("the alert %q changes more than %d times: try a shorter time, or another threshold", t.rule.Alert, mostSpells)
}

// run has all alerts pass through their states. Without a limit, and if no two have the same labels, alerts
// do not depend on each other; else one state machine has all.
func (t *trial) run(ctx context.Context, rows []plan.Row, keeps func(float64) bool) error {
	add, notes := expandable(t.rule.labels)
	t.report.Notes = notes
	alone := t.rule.group.Limit() == 0
	var all []presence // of one alert after the other
	byLabels := map[uint64]*Alert{}
	for i := range rows {
		before := len(all)
		if all = appendPresences(all, &rows[i], keeps); len(all) > mostPresences {
			return t.errTooMany()
		}
		if len(all) == before {
			continue
		}
		l, err := t.label(ctx, add, rows[i].Labels)
		if err = cmp.Or(context.Cause(ctx), err); err != nil {
			return err
		}
		a := byLabels[l.Hash()]
		if alone = alone && a == nil; a == nil {
			a = &Alert{Labels: l, series: labels.FromStrings(numberLabel, strconv.Itoa(len(t.alerts)))}
			byLabels[l.Hash()], t.alerts = a, append(t.alerts, a)
			t.spells += len(l.String()) / longLabels
		}
		for k := range all[before:] {
			all[before+k].alert = a
		}
	}
	if alone || len(all) == 0 {
		return t.repeat(ctx, all)
	}
	slices.SortStableFunc(all, func(a, b presence) int { return cmp.Compare(a.first, b.first) })
	return t.replay(ctx, t.alerts, all)
}

// repeat has alerts that do not depend on each other do what one does whose series is there as long. For an
// alert that fires, a pause that is shorter than keep_firing_for is none.
func (t *trial) repeat(ctx context.Context, coming []presence) error {
	for len(coming) > 0 {
		p := coming[0]
		does, err := t.episode(ctx, p)
		if err != nil {
			return err
		}
		for coming = coming[1:]; does[len(does)-1].State == firing && len(coming) > 0 && coming[0].alert == p.alert &&
			t.at(coming[0].first-1).Sub(t.at(p.end)) < t.rule.KeepFiringFor; coming = coming[1:] {
			p.end = coming[0].end
		}
		if does, err = t.episode(ctx, p); err != nil {
			return err
		}
		for _, s := range does {
			s.Value = model.SampleValue(p.values[s.first])
			s.first, s.end = s.first+p.first, s.end+p.first
			p.alert.Spells = append(p.alert.Spells, s)
		}
		if t.spells += len(does); t.spells > mostSpells {
			return t.errTooMany()
		}
	}
	return nil
}

// episode is what an alert does, in steps since its series came. That depends on nothing but for how long the
// series is there, so it is found out once.
func (t *trial) episode(ctx context.Context, p presence) ([]Spell, error) {
	n := p.end - p.first
	if _, known := t.episodes[n]; !known {
		a := &Alert{series: labels.FromStrings(numberLabel, "0")}
		if err := t.replay(ctx, []*Alert{a}, []presence{{alert: a, end: n, values: p.values}}); err != nil {
			return nil, err
		}
		t.episodes[n] = a.Spells
	}
	return t.episodes[n], nil
}

// appendPresences appends where a row has values that are kept.
func appendPresences(all []presence, row *plan.Row, keeps func(float64) bool) []presence {
	values, end := row.Values, -1 // of the latest
	for _, run := range row.Runs {
		for k := range int(run.Len) {
			step := int(run.First) + k
			if !keeps(values[k]) {
				continue
			}
			if step != end {
				all = append(all, presence{first: step, values: values[k:]})
			}
			end = step + 1
			all[len(all)-1].end = end
		}
		values = values[run.Len:]
	}
	return all
}

// ofLabels are a template's actions that name a label of the series.
var ofLabels = regexp.MustCompile(`\{\{-?\s*(\$labels|\.Labels)\.\w+\s*-?\}\}`)

// unexpanded is the value of a label whose template is not expanded.
const unexpanded = "<template>"

// expandable returns a rule's labels with the templates that may be expanded for everybody who asks, and a
// note on each other: those can ask for queries, and for any amount of time and memory.
func expandable(all labels.Labels) (labels.Labels, []string) {
	var notes []string
	var b labels.ScratchBuilder // an empty label removes a series' label: it stays
	all.Range(func(l labels.Label) {
		if strings.Contains(ofLabels.ReplaceAllString(l.Value, ""), "{{") || strings.Count(l.Value, "{{") > mostActions {
			notes = append(notes, fmt.Sprintf("the template of label %s has more than labels of the series: it is not expanded, and alerts that it alone tells apart are one", l.Name))
			l.Value = unexpanded
		}
		b.Add(l.Name, l.Value)
	})
	return b.Labels(), notes
}

// machine is Prometheus's state machine of the rule, with labels to add. Annotations change no state, and
// the expression was evaluated: a number stands for it, as Eval writes it out each time.
func (t *trial) machine(add labels.Labels) *rules.AlertingRule {
	return rules.NewAlertingRule(t.rule.Alert, &parser.NumberLiteral{}, t.rule.For, t.rule.KeepFiringFor, add, labels.EmptyLabels(), labels.EmptyLabels(), "", false, promslog.NewNopLogger())
}

// eval evaluates a machine at step k, where the rule's expression has a result.
func (t *trial) eval(ctx context.Context, m *rules.AlertingRule, k int, result promql.Vector) error {
	_, err := m.Eval(ctx, t.rule.group.QueryOffset(), t.at(k), func(context.Context, string, time.Time) (promql.Vector, error) {
		return result, nil
	}, &url.URL{}, t.rule.group.Limit())
	return err
}

// label has Prometheus give a series the labels that its alert has.
func (t *trial) label(ctx context.Context, add, metric labels.Labels) (l labels.Labels, err error) {
	m := t.machine(add)
	err = t.eval(ctx, m, 0, promql.Vector{{Metric: metric}})
	m.ForEachActiveAlert(func(a *rules.Alert) { l = a.Labels })
	return l, err
}

// at is the time of step k.
func (t *trial) at(k int) time.Time { return t.first.Add(time.Duration(k) * t.rule.group.Interval()) }

// replay runs one machine where its series begin and end, and where the time of alerts is up. Between
// these steps nothing changes: the same series are there, whose alerts exist.
func (t *trial) replay(ctx context.Context, alerts []*Alert, coming []presence) error {
	m := t.machine(labels.EmptyLabels()) // the series have the rule's
	var present []presence
	var result promql.Vector
	var active []*Alert
	failed := false // at the step before, where the same series were there
	for k := coming[0].first; k < t.steps; {
		before := len(present)
		present = slices.DeleteFunc(present, func(p presence) bool { return p.end == k })
		changed := len(present) != before
		for ; len(coming) > 0 && coming[0].first == k; coming = coming[1:] {
			present, changed = append(present, coming[0]), true
		}
		result = result[:0]
		next := math.MaxInt
		if len(coming) > 0 {
			next = coming[0].first
		}
		for _, p := range present {
			result = append(result, promql.Sample{Metric: p.alert.series, F: p.values[k-p.first]})
			next = min(next, p.end)
		}
		err := t.eval(ctx, m, k, result)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var due int
		if active, due = t.note(m, alerts, active, k); t.spells > mostSpells {
			return t.errTooMany()
		}
		switch {
		case err != nil && (changed || !failed):
			next = k + 1 // an error may have ended alerts, so that the same series may be fewer than the limit
		case err == nil:
			next = min(next, due)
		}
		if failed = err != nil; failed {
			t.report.Failed += min(next, t.steps) - k
			t.report.Failure = cmp.Or(t.report.Failure, err.Error())
		}
		k = next
	}
	for _, a := range active {
		a.last().end = t.steps
	}
	return nil
}

// note notes which alerts are pending and firing at step k, of which some were active before. It returns
// the active ones, and the next step at which one begins to fire or ends because its time is up.
func (t *trial) note(m *rules.AlertingRule, alerts, active []*Alert, k int) (_ []*Alert, next int) {
	next = math.MaxInt
	m.ForEachActiveAlert(func(is *rules.Alert) {
		if is.State != rules.StatePending && is.State != rules.StateFiring {
			return
		}
		n, _ := strconv.Atoi(is.Labels.Get(numberLabel))
		a := alerts[n]
		state := pending
		due := is.ActiveAt.Add(t.rule.For)
		if is.State == rules.StateFiring {
			state, due = firing, is.KeepFiringSince.Add(t.rule.KeepFiringFor)
		}
		if state == pending || !is.KeepFiringSince.IsZero() {
			interval := t.rule.group.Interval()
			next = min(next, max(k+1, int((due.Sub(t.first)+interval-1)/interval)))
		}
		a.seen = k
		was := a.state()
		if was == state {
			return
		}
		if was == "" {
			active = append(active, a)
		} else {
			a.last().end = k
		}
		a.Spells = append(a.Spells, Spell{State: state, first: k, end: -1, Value: model.SampleValue(is.Value)})
		t.spells++
	})
	return slices.DeleteFunc(active, func(a *Alert) bool {
		if a.seen == k {
			return false
		}
		a.last().end = k
		return true
	}), next
}

// finish ends what has not ended, and sums up. What fired most comes first.
func (t *trial) finish() *Report {
	r := t.report
	r.Alerts = []*Alert{} // no null in JSON
	for _, a := range t.alerts {
		if len(a.Spells) == 0 { // all evaluations failed
			continue
		}
		for i := range a.Spells {
			s := &a.Spells[i]
			if s.Open = s.end >= t.steps; s.Open {
				s.end = t.steps - 1
			}
			s.Start, s.End = model.TimeFromUnixNano(t.at(s.first).UnixNano()), model.TimeFromUnixNano(t.at(s.end).UnixNano())
		}
		a.sum()
		r.add(a.Totals)
		r.Alerts = append(r.Alerts, a)
	}
	slices.SortFunc(r.Alerts, func(a, b *Alert) int {
		return cmp.Or(cmp.Compare(b.Fired, a.Fired), cmp.Compare(b.Pending+b.Firing, a.Pending+a.Firing), labels.Compare(a.Labels, b.Labels))
	})
	return r
}

// Rows are the rows of an answer to a range query, which is Prometheus's or an executor's. A native
// histogram is a value of 0, or is left out.
func Rows(v parser.Value, g plan.Grid, histograms bool) []plan.Row {
	if ours, ok := v.(*plan.Matrix); ok {
		return ours.Rows
	}
	matrix, _ := v.(promql.Matrix)
	rows := make([]plan.Row, len(matrix))
	for i, s := range matrix {
		row, h := &rows[i], s.Histograms
		row.Labels = s.Metric
		for len(s.Floats) > 0 || histograms && len(h) > 0 {
			var p promql.FPoint
			if len(s.Floats) == 0 || histograms && len(h) > 0 && h[0].T < s.Floats[0].T {
				p.T, h = h[0].T, h[1:]
			} else {
				p, s.Floats = s.Floats[0], s.Floats[1:]
			}
			row.Values = append(row.Values, p.F)
			row.Runs = plan.AppendRun(row.Runs, plan.Run{First: int32((p.T - g.Start) / g.Interval), Len: 1})
		}
	}
	return rows
}
