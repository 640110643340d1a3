package backtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Kinds of expectations.
const (
	MustFire    = "must-fire"     // ALERT@START..END: it fires at some time in it
	MustNotFire = "must-not-fire" // ALERT@START..END: it fires at no time in it
	AtMost      = "at-most"       // ALERT=N/PERIOD: no more firings begin in any period of that length
)

// Expectation is what is expected of alerts. ALERT is a name, or a selector of its alerts' labels such as
// HighLoad{job="api"}.
type Expectation struct {
	Kind, Text string

	alerts     []*labels.Matcher
	start, end time.Time
	most       int
	period     time.Duration
}

// periods are lengths of time by their names.
var periods = map[string]time.Duration{"day": 24 * time.Hour, "week": 7 * 24 * time.Hour}

// Expect reads an expectation, whose times are read by when.
func Expect(kind, text string, when func(string) (time.Time, error)) (*Expectation, error) {
	e := &Expectation{Kind: kind, Text: text}
	separator, form := "@", "ALERT@START..END, such as HighLoad@2026-11-02T10:00:00Z..2026-11-02T11:00:00Z"
	if kind == AtMost {
		separator, form = "=", "ALERT=N/PERIOD, such as HighLoad=3/week or HighLoad=1/12h"
	}
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return nil, fmt.Errorf("%q: write %s", text, form)
	}
	var err error
	if e.alerts, err = parser.NewParser(parser.Options{}).ParseMetricSelector(text[:at]); err != nil {
		return nil, fmt.Errorf("%q is no alert's name and no selector of alerts: %w", text[:at], err)
	}
	for _, m := range e.alerts {
		if m.Name == model.MetricNameLabel {
			m.Name = labels.AlertName
		}
	}
	if kind == AtMost {
		most, period, _ := strings.Cut(text[at+1:], "/")
		if e.most, err = strconv.Atoi(most); err != nil || e.most < 0 {
			return nil, fmt.Errorf("%q: write %s", text, form)
		}
		if e.period = periods[period]; e.period == 0 {
			d, err := model.ParseDuration(period)
			if err != nil || d <= 0 {
				return nil, fmt.Errorf("%q: %q is neither day, week nor a duration", text, period)
			}
			e.period = time.Duration(d)
		}
		return e, nil
	}
	from, to, found := strings.Cut(text[at+1:], "..")
	if !found {
		return nil, fmt.Errorf("%q: write %s", text, form)
	}
	if e.start, err = when(from); err == nil {
		e.end, err = when(to)
	}
	if err == nil && e.end.Before(e.start) {
		err = errors.New("the end is before the start")
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return e, nil
}

// Check says in what reports do not meet the expectation; empty is that they do. An error says why that
// cannot be told.
func (e *Expectation) Check(reports []*Report) (failure string, err error) {
	var fired []Spell
	known := false
	for _, r := range reports {
		if slices.ContainsFunc(e.alerts, func(m *labels.Matcher) bool { return m.Name == labels.AlertName && !m.Matches(r.Alert) }) {
			continue
		}
		known = true
		switch {
		case r.Error != "":
			return fmt.Sprintf("the alert %q could not be tried", r.Alert), nil
		case e.Kind != AtMost && (e.end.Before(r.Start.Time()) || e.start.After(r.End.Time())):
			return "", fmt.Errorf("%s %q lies outside of the time that was tried", e.Kind, e.Text)
		}
		for _, a := range r.Alerts {
			if slices.ContainsFunc(e.alerts, func(m *labels.Matcher) bool { return !m.Matches(a.Labels.Get(m.Name)) }) {
				continue
			}
			for _, s := range a.Spells {
				within := !s.End.Time().Before(e.start) && !s.Start.Time().After(e.end)
				if s.State == firing && (e.Kind == AtMost || within) {
					fired = append(fired, s)
				}
			}
		}
	}
	slices.SortFunc(fired, func(a, b Spell) int { return int(a.Start - b.Start) })
	switch {
	case !known:
		return "", fmt.Errorf("%s %q: there is no such alert in the rules", e.Kind, e.Text)
	case e.Kind == MustFire && len(fired) == 0:
		return "it did not fire in that time", nil
	case e.Kind == MustNotFire && len(fired) > 0:
		return "it fired at " + fired[0].Start.Time().UTC().Format(time.RFC3339), nil
	case e.Kind != AtMost:
		return "", nil
	}
	for i := e.most; i < len(fired); i++ {
		if first := fired[i-e.most].Start; fired[i].Start.Sub(first) < e.period {
			return fmt.Sprintf("it fired more than %d times within %s from %s on", e.most, model.Duration(e.period), first.Time().UTC().Format(time.RFC3339)), nil
		}
	}
	return "", nil
}
