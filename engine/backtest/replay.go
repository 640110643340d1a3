package backtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
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

// Source evaluates expressions.
type Source interface {
	// Range evaluates over a grid. Floating-point results are as Prometheus's engine has them; a native
	// histogram is a value of 0, and is left out if they are not wanted.
	Range(ctx context.Context, expr string, g plan.Grid, histograms bool) ([]plan.Row, error)
	// Instant evaluates at one time.
	Instant(ctx context.Context, expr string, at time.Time) (promql.Vector, error)
}

// trial is a rule under trial.
type trial struct {
	rule   *Rule
	from   Source
	first  time.Time // evaluation; step k is k intervals later
	steps  int
	grid   plan.Grid // of samples: query_offset earlier
	alerts map[uint64]*Alert
	spells int
	report *Report
}

// presence is a series of the expression's result at consecutive steps.
type presence struct {
	metric     labels.Labels
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

// run has all alerts pass through their states.
//
// Alerts do not depend on each other, so each has a state machine of its own that is run only where its
// series begins or ends and where its time is up. With a limit, or with series whose labels become the
// same, they do: then one machine has all.
func (t *trial) run(ctx context.Context, rows []plan.Row, keeps func(float64) bool) error {
	add, notes := expandable(t.rule.labels)
	t.report.Notes = notes
	alone := t.rule.group.Limit() == 0
	var all [][]presence
	known, presences := map[uint64]bool{}, 0
	for i := range rows {
		metric := rows[i].Labels
		if err := cmp.Or(context.Cause(ctx), t.label(ctx, add, &metric)); err != nil {
			return err
		}
		found := presencesOf(&rows[i], metric, keeps)
		if presences += len(found); presences > mostPresences {
			return t.errTooMany()
		}
		if len(found) > 0 {
			h := metric.Hash()
			alone = alone && !known[h]
			known[h] = true
			all = append(all, found)
		}
	}
	if !alone {
		all = [][]presence{slices.Concat(all...)}
	}
	for _, found := range all {
		if len(found) == 0 {
			continue
		}
		slices.SortStableFunc(found, func(a, b presence) int { return cmp.Compare(a.first, b.first) })
		if err := t.replay(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// presencesOf is where a row has values that are kept.
func presencesOf(row *plan.Row, metric labels.Labels, keeps func(float64) bool) (all []presence) {
	values := row.Values
	for _, run := range row.Runs {
		began := -1
		for k := range int(run.Len) + 1 {
			kept := k < int(run.Len) && keeps(values[k])
			switch {
			case kept && began < 0:
				began = k
			case !kept && began >= 0:
				all = append(all, presence{metric, int(run.First) + began, int(run.First) + k, values[began:k]})
				began = -1
			}
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
func (t *trial) label(ctx context.Context, add labels.Labels, metric *labels.Labels) error {
	m := t.machine(add)
	if err := t.eval(ctx, m, 0, promql.Vector{{Metric: *metric}}); err != nil {
		return err
	}
	m.ForEachActiveAlert(func(a *rules.Alert) { *metric = a.Labels })
	return nil
}

// at is the time of step k.
func (t *trial) at(k int) time.Time { return t.first.Add(time.Duration(k) * t.rule.group.Interval()) }

// replay runs one machine where its series begin and end, and where the time of alerts is up. Between
// these steps nothing changes: the same series are there, whose alerts exist.
func (t *trial) replay(ctx context.Context, coming []presence) error {
	m := t.machine(labels.EmptyLabels()) // the series have the rule's
	var present []presence
	var result promql.Vector
	var active []*Alert
	failed := false // at the step before, where the same series were there
	for k := coming[0].first; k < t.steps; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
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
			result = append(result, promql.Sample{Metric: p.metric, F: p.values[k-p.first]})
			next = min(next, p.end)
		}
		err := t.eval(ctx, m, k, result)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if active = t.note(m, active, k); t.spells > mostSpells {
			return t.errTooMany()
		}
		switch {
		case err != nil && (changed || !failed):
			next = k + 1 // an error may have ended alerts, so that the same series may be fewer than the limit
		case err == nil:
			next = min(next, t.due(m, k))
		}
		if failed = err != nil; failed {
			t.report.Failed += min(next, t.steps) - k
			t.report.Failure = cmp.Or(t.report.Failure, err.Error())
		}
		k = next
	}
	for _, a := range active {
		a.open.End, a.open.Open, a.open = t.report.End, true, nil
	}
	return nil
}

// note notes which alerts are pending and firing at step k, of those that were active before and others,
// and returns those that are.
func (t *trial) note(m *rules.AlertingRule, active []*Alert, k int) []*Alert {
	now := model.TimeFromUnixNano(t.at(k).UnixNano())
	m.ForEachActiveAlert(func(is *rules.Alert) {
		if is.State != rules.StatePending && is.State != rules.StateFiring {
			return
		}
		h := is.Labels.Hash()
		a := t.alerts[h]
		if a == nil {
			a = &Alert{Labels: is.Labels}
			t.alerts[h] = a
			t.spells += len(is.Labels.String()) / longLabels
		}
		a.seen = k
		state := is.State.String()
		switch {
		case a.open == nil:
			active = append(active, a)
		case a.open.State == state:
			return
		default:
			a.open.End = now
		}
		a.open = &Spell{State: state, Start: now, Value: model.SampleValue(is.Value)}
		a.Spells = append(a.Spells, a.open)
		t.spells++
	})
	return slices.DeleteFunc(active, func(a *Alert) bool {
		if a.seen == k {
			return false
		}
		a.open.End, a.open = now, nil
		return true
	})
}

// due is the next step at which the time of an alert is up: to fire, or to end.
func (t *trial) due(m *rules.AlertingRule, k int) int {
	next := math.MaxInt
	m.ForEachActiveAlert(func(a *rules.Alert) {
		var at time.Time
		switch {
		case a.State == rules.StatePending:
			at = a.ActiveAt.Add(t.rule.For)
		case a.State == rules.StateFiring && !a.KeepFiringSince.IsZero():
			at = a.KeepFiringSince.Add(t.rule.KeepFiringFor)
		default:
			return
		}
		interval := t.rule.group.Interval()
		next = min(next, max(k+1, int((at.Sub(t.first)+interval-1)/interval)))
	})
	return next
}

// Rows are the rows of an answer to a range query, which is Prometheus's or an executor's. A native
// histogram is a value of 0, or is left out.
func Rows(v parser.Value, g plan.Grid, histograms bool) []plan.Row {
	if ours, ok := v.(*plan.Matrix); ok {
		return ours.Rows
	}
	matrix, _ := v.(promql.Matrix)
	rows := make([]plan.Row, 0, len(matrix))
	for _, s := range matrix {
		row := plan.Row{Labels: s.Metric}
		add := func(at int64, v float64) {
			row.Values = append(row.Values, v)
			row.Runs = plan.AppendRun(row.Runs, plan.Run{First: int32((at - g.Start) / g.Interval), Len: 1})
		}
		h := s.Histograms
		for _, f := range s.Floats {
			for ; histograms && len(h) > 0 && h[0].T < f.T; h = h[1:] {
				add(h[0].T, 0)
			}
			add(f.T, f.F)
		}
		for ; histograms && len(h) > 0; h = h[1:] {
			add(h[0].T, 0)
		}
		rows = append(rows, row)
	}
	return rows
}
