package backtest

import (
	"cmp"
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

// Expectation is what is expected of alerts, and whether it holds, as Check says. ALERT is a name, or a
// selector of its alerts' labels such as HighLoad{job="api"}.
type Expectation struct {
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	Holds   bool   `json:"holds"`
	Failure string `json:"failure,omitempty"`

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
	separator, between, form := "@", "..", "ALERT@START..END, such as HighLoad@2026-11-02T10:00:00Z..2026-11-02T11:00:00Z"
	if kind == AtMost {
		separator, between, form = "=", "/", "ALERT=N/PERIOD, such as HighLoad=3/week or HighLoad=1/12h"
	}
	at := strings.LastIndex(text, separator)
	first, second, found := strings.Cut(text[at+1:], between)
	if at < 0 || !found {
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
		if e.most, err = strconv.Atoi(first); err != nil || e.most < 0 {
			return nil, fmt.Errorf("%q: write %s", text, form)
		}
		if e.period = periods[second]; e.period > 0 {
			return e, nil
		}
		d, err := model.ParseDuration(second)
		if e.period = time.Duration(d); err != nil || d <= 0 {
			return nil, fmt.Errorf("%q: %q is neither day, week nor a duration", text, second)
		}
		return e, nil
	}
	if e.start, err = when(first); err == nil {
		e.end, err = when(second)
	}
	if err == nil && e.end.Before(e.start) {
		err = errors.New("the end is before the start")
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return e, nil
}

// Check says whether reports meet the expectation, or in what they do not. An error says why that cannot be
// told.
func (e *Expectation) Check(reports []*Report) (err error) {
	e.Failure, err = e.failure(reports)
	e.Holds = e.Failure == "" && err == nil
	return err
}

func (e *Expectation) failure(reports []*Report) (string, error) {
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
	slices.SortFunc(fired, func(a, b Spell) int { return cmp.Compare(a.Start, b.Start) })
	switch {
	case !known:
		return "", fmt.Errorf("%s %q: there is no such alert in the rules", e.Kind, e.Text)
	case e.Kind == MustFire && len(fired) == 0:
		return "it did not fire in that time", nil
	case e.Kind == MustNotFire && len(fired) > 0:
		return "it fired at " + fired[0].Start.Time().UTC().Format(time.RFC3339), nil
	}
	for i := e.most; e.Kind == AtMost && i < len(fired); i++ {
		if first := fired[i-e.most].Start; fired[i].Start.Sub(first) < e.period {
			return fmt.Sprintf("it fired more than %d times within %s from %s on", e.most, model.Duration(e.period), first.Time().UTC().Format(time.RFC3339)), nil
		}
	}
	return "", nil
}
