package backtest

import (
	"bytes"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Report is what the alerts of a rule would have done. Durations are in seconds.
type Report struct {
	Group         string     `json:"group"`
	Alert         string     `json:"alert"`
	Expr          string     `json:"expr"`
	Threshold     *Threshold `json:"threshold,omitempty"`
	Interval      float64    `json:"interval"`
	For           float64    `json:"for"`
	KeepFiringFor float64    `json:"keep_firing_for"`
	Start         model.Time `json:"start"` // the first evaluation
	End           model.Time `json:"end"`   // the last
	Steps         int        `json:"steps"` // evaluations
	Totals
	Alerts []*Alert `json:"alerts"`
	// Failed is how many evaluations failed, and Failure what the first of them failed for.
	Failed  int    `json:"failed_steps,omitempty"`
	Failure string `json:"failure,omitempty"`
	// Notes say what one should know of the result.
	Notes []string `json:"notes,omitempty"`
	// Error says why there is no result; there is nothing else then but what the rule is.
	Error string `json:"error,omitempty"`
}

// Totals sum up what one alert did, or all of a rule.
type Totals struct {
	Fired   int     `json:"fired"`   // how often it began to fire
	Flapped int     `json:"flapped"` // how often within flapWithin of its last end
	Calmed  int     `json:"calmed"`  // how often it was pending and did not come to fire
	Pending float64 `json:"pending_seconds"`
	Firing  float64 `json:"firing_seconds"`
	Longest float64 `json:"longest_firing_seconds"`
}

// Alert is what one alert did: the rule's, with one set of labels.
type Alert struct {
	Labels labels.Labels `json:"labels"`
	Totals
	Spells Spells `json:"spells"`

	series labels.Labels // stands for it in a state machine
	seen   int           // step at which it was active last
}

// numberLabel is the label of series that stand for alerts.
const numberLabel = "number"

// States of alerts.
const (
	pending = "pending"
	firing  = "firing"
)

// Spell is a time in which an alert was in one state.
type Spell struct {
	State string     `json:"state"` // pending or firing
	Start model.Time `json:"start"` // the first evaluation that saw it so
	End   model.Time `json:"end"`   // the first that did not
	// Open says that the last evaluation saw it so: that is the end.
	Open  bool              `json:"open,omitempty"`
	Value model.SampleValue `json:"value"` // of the expression at the start

	first, end int // steps of Start and End; before it has ended, end is -1
}

// Spells are the times in which an alert was active.
type Spells []Spell

// MarshalJSON writes what encoding/json would, where there are tens of thousands.
func (all Spells) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 96*len(all)+2), '[')
	for i, s := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `{"state":"`...), s.State...)
		b = appendSeconds(append(b, `","start":`...), s.Start)
		b = appendSeconds(append(b, `,"end":`...), s.End)
		if s.Open {
			b = append(b, `,"open":true`...)
		}
		b = strconv.AppendFloat(append(b, `,"value":"`...), float64(s.Value), 'f', -1, 64)
		b = append(b, `"}`...)
	}
	return append(b, ']'), nil
}

// appendSeconds appends a time as model.Time is written.
func appendSeconds(b []byte, t model.Time) []byte {
	if t < 0 || t%1000 == 0 {
		return strconv.AppendFloat(b, float64(t)/1000, 'f', -1, 64)
	}
	b = strconv.AppendInt(b, int64(t/1000), 10)
	return bytes.TrimRight(append(b, '.', byte('0'+t/100%10), byte('0'+t/10%10), byte('0'+t%10)), "0")
}

// last is the alert's latest spell, and state its state, empty if it is inactive.
func (a *Alert) last() *Spell { return &a.Spells[len(a.Spells)-1] }
func (a *Alert) state() string {
	if len(a.Spells) == 0 || a.last().end >= 0 {
		return ""
	}
	return a.last().State
}

// flapWithin is how soon after it was resolved an alert fires again that is said to flap.
const flapWithin = time.Hour

func (s *Spell) seconds() float64 { return s.End.Sub(s.Start).Seconds() }

// sum sums up an alert's spells.
func (a *Alert) sum() {
	var last *Spell // that fired
	for i := range a.Spells {
		s := &a.Spells[i]
		if s.State == pending {
			a.Pending += s.seconds()
			if !s.Open && (i+1 == len(a.Spells) || a.Spells[i+1].Start != s.End) {
				a.Calmed++
			}
			continue
		}
		a.Fired++
		a.Firing += s.seconds()
		a.Longest = max(a.Longest, s.seconds())
		if last != nil && s.Start.Sub(last.End) <= flapWithin {
			a.Flapped++
		}
		last = s
	}
}

// add adds the totals of an alert to those of its rule.
func (t *Totals) add(a Totals) {
	t.Fired, t.Flapped, t.Calmed = t.Fired+a.Fired, t.Flapped+a.Flapped, t.Calmed+a.Calmed
	t.Pending, t.Firing, t.Longest = t.Pending+a.Pending, t.Firing+a.Firing, max(t.Longest, a.Longest)
}
