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
	alerts []*Alert
	spells int
	// alone says that no alert depends on others: without a limit, and if no two have the same labels.
	alone    bool
	episodes map[int]episode // by how many steps the series is there
	report   *Report
}

// presence is a series of the expression's result at consecutive steps.
type presence struct {
	alert      *Alert
	first, end int // step, and the one behind the last
	values     []float64
}

// episode is what an alert does whose series comes at step first and goes, until it is inactive again. What
// it does depends on nothing but for how many steps the series is there, if that does not come back before.
type episode struct {
	first  int
	spells []Spell
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

// run has all alerts pass through their states. Alerts alone each have a state machine of their own, and
// short episodes are as the first of their length was; otherwise one machine has all.
func (t *trial) run(ctx context.Context, rows []plan.Row, keeps func(float64) bool) (err error) {
	add, notes := expandable(t.rule.labels)
	t.report.Notes, t.alone = notes, t.rule.group.Limit() == 0
	var all [][]presence
	var found []presence
	byLabels, presences := map[uint64]*Alert{}, 0
	for i := range rows {
		found = presencesOf(&rows[i], keeps, found[:0])
		if presences += len(found); presences > mostPresences {
			return t.errTooMany()
		}
		if len(found) == 0 {
			continue
		}
		l, err := t.label(ctx, add, rows[i].Labels)
		if err = cmp.Or(context.Cause(ctx), err); err != nil {
			return err
		}
		a := byLabels[l.Hash()]
		if t.alone = t.alone && a == nil; a == nil {
			a = &Alert{Labels: l, number: labels.FromStrings(numberLabel, strconv.Itoa(len(t.alerts)))}
			byLabels[l.Hash()], t.alerts = a, append(t.alerts, a)
			t.spells += len(l.String()) / longLabels
		}
		for k := range found {
			found[k].alert = a
		}
		all = append(all, slices.Clone(found))
	}
	if !t.alone {
		all = [][]presence{slices.Concat(all...)}
		slices.SortStableFunc(all[0], func(a, b presence) int { return cmp.Compare(a.first, b.first) })
	}
	for _, coming := range all {
		for len(coming) > 0 {
			if t.alone && t.repeat(coming) {
				coming = coming[1:]
			} else if coming, err = t.replay(ctx, coming); err != nil {
				return err
			}
			if t.spells > mostSpells {
				return t.errTooMany()
			}
		}
	}
	return nil
}

// repeat has the alert of the next presence do what one did whose series was there as long. It reports
// false if there was none, or if the time or the pause behind it is too short.
func (t *trial) repeat(coming []presence) bool {
	p := coming[0]
	e, ok := t.episodes[p.end-p.first]
	if !ok {
		return false
	}
	later := p.first - e.first
	if end := e.spells[len(e.spells)-1].end + later; end >= t.steps || len(coming) > 1 && end >= coming[1].first {
		return false
	}
	for _, s := range e.spells {
		s.first, s.end, s.Value = s.first+later, s.end+later, model.SampleValue(p.values[s.first-e.first])
		p.alert.Spells = append(p.alert.Spells, s)
	}
	t.spells += len(e.spells)
	return true
}

// presencesOf appends where a row has values that are kept.
func presencesOf(row *plan.Row, keeps func(float64) bool, all []presence) []presence {
	values := row.Values
	for _, run := range row.Runs {
		began := -1
		for k := range int(run.Len) + 1 {
			kept := k < int(run.Len) && keeps(values[k])
			switch {
			case kept && began < 0:
				began = k
			case !kept && began >= 0:
				all = append(all, presence{first: int(run.First) + began, end: int(run.First) + k, values: values[began:k]})
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
func (t *trial) label(ctx context.Context, add, metric labels.Labels) (l labels.Labels, err error) {
	m := t.machine(add)
	err = t.eval(ctx, m, 0, promql.Vector{{Metric: metric}})
	m.ForEachActiveAlert(func(a *rules.Alert) { l = a.Labels })
	return l, err
}

// at is the time of step k.
func (t *trial) at(k int) time.Time { return t.first.Add(time.Duration(k) * t.rule.group.Interval()) }

// replay runs a machine where its series begin and end, and where the time of alerts is up. Between
// these steps nothing changes: the same series are there, whose alerts exist. It returns what comes after
// all is inactive again.
func (t *trial) replay(ctx context.Context, coming []presence) ([]presence, error) {
	m := t.machine(labels.EmptyLabels()) // the series have the rule's
	begun := coming[0]
	spells, all := len(begun.alert.Spells), len(coming)
	var present []presence
	var result promql.Vector
	var active []*Alert
	failed := false // at the step before, where the same series were there
	for k := begun.first; k < t.steps; {
		before := len(present)
		present = slices.DeleteFunc(present, func(p presence) bool { return p.end == k })
		changed := len(present) != before
		for ; len(coming) > 0 && coming[0].first == k; coming = coming[1:] {
			present, changed = append(present, coming[0]), true
		}
		result = result[:0]
		for _, p := range present {
			result = append(result, promql.Sample{Metric: p.alert.number, F: p.values[k-p.first]})
		}
		err := t.eval(ctx, m, k, result)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var next int
		if active, next = t.note(m, active, k); t.spells > mostSpells {
			return nil, t.errTooMany()
		}
		if len(active)+len(present) == 0 {
			if t.alone && len(coming) == all-1 {
				t.episodes[begun.end-begun.first] = episode{begun.first, begun.alert.Spells[spells:]}
			}
			return coming, nil
		}
		if t.alone && len(present) > 0 && active[0].state() == firing {
			// A pause that is shorter than keep_firing_for changes nothing.
			for ; len(coming) > 0 && t.at(coming[0].first-1).Sub(t.at(present[0].end)) < t.rule.KeepFiringFor; coming = coming[1:] {
				present[0].end = coming[0].end
			}
		}
		if err != nil {
			next = math.MaxInt
		}
		for _, p := range present {
			next = min(next, p.end)
		}
		if len(coming) > 0 {
			next = min(next, coming[0].first)
		}
		if err != nil && (changed || !failed) {
			next = k + 1 // an error may have ended alerts, so that the same series may be fewer than the limit
		}
		if failed = err != nil; failed {
			t.report.Failed += min(next, t.steps) - k
			t.report.Failure = cmp.Or(t.report.Failure, err.Error())
		}
		k = next
	}
	for _, a := range active {
		s := a.last()
		s.end, s.Open = t.steps-1, true
	}
	return nil, nil
}

// note notes which alerts are pending and firing at step k, of those that were active before and others. It
// returns those that are, and the next step at which the time of one is up: to fire, or to end.
func (t *trial) note(m *rules.AlertingRule, active []*Alert, k int) (_ []*Alert, next int) {
	next = math.MaxInt
	m.ForEachActiveAlert(func(is *rules.Alert) {
		if is.State != rules.StatePending && is.State != rules.StateFiring {
			return
		}
		n, _ := strconv.Atoi(is.Labels.Get(numberLabel))
		a := t.alerts[n]
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
