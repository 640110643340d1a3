// Package backfill evaluates the rules of Prometheus's rule files over the past, and writes what a
// Prometheus would have recorded then into TSDB blocks.
//
// Rule files and a time range go in; blocks in a directory come out, with a state file that lets a run
// which was stopped go on. The range is cut into stretches of whole blocks. In a stretch each rule is one
// range query, over the upstream and what rules before it recorded. Every sample and stale marker is the
// one that a live Prometheus writes which evaluates the same samples at the same times. Start reading at
// Run; rules.go holds which rule reads what another one records, evaluate.go what a rule reads and writes.
package backfill

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"

	"github.com/promwarp/promwarp/plan"
)

// rule is a rule, and what it wrote so far.
type rule struct {
	group      *rules.Group // without rules: its times, its limit
	index      int          // in the group
	name, text string       // text is the expression
	labels     labels.Labels
	writes     []labels.Labels // for each metric that it writes, the labels that all its series have
	reads      [][]*labels.Matcher
	alert      *rules.AlertingRule // its state machine; nil for a recording rule
	*ruleState

	recorded bool // it reads what is recorded
	// steps says that one range query does not come to what a live group has: each step is evaluated
	// alone, after all that a live group has evaluated before it.
	steps bool
}

// String names the rule for messages.
func (r *rule) String() string {
	return fmt.Sprintf("rule %s of group %s in %s", r.name, r.group.Name(), r.group.File())
}

// load reads the rule files. Alerting rules are left out unless they are asked for.
func (o *Options) load() (all []*rule, err error) {
	for _, file := range o.Files {
		path := o.Path // under which Prometheus knows the file
		switch {
		case strings.HasSuffix(path, "/"):
			path += filepath.Base(file)
		case path != "" && len(o.Files) > 1:
			return nil, fmt.Errorf("--rules.path=%s names one file, and there are %d: give their directory, with a / at its end", path, len(o.Files))
		case path == "":
			if path, err = filepath.Abs(file); err != nil {
				return nil, err
			}
		}
		parsed, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, o.Parser, promslog.NewNopLogger())
		if len(errs) > 0 {
			return nil, errors.Join(errs...)
		}
		for _, g := range parsed.Groups {
			group := rules.NewGroup(rules.GroupOptions{
				Name: g.Name, File: path, Interval: cmp.Or(time.Duration(g.Interval), o.Interval), Limit: g.Limit,
				QueryOffset: cmp.Or((*time.Duration)(g.QueryOffset), &o.QueryOffset),
			})
			for i, from := range g.Rules {
				if from.Alert != "" && !o.Alerts {
					continue
				}
				r, err := o.parse(from, rules.FromMaps(g.Labels, from.Labels))
				if err != nil {
					return nil, err
				}
				r.group, r.index = group, i
				// An alert is written as YAML; there is none of a recording rule.
				r.ruleState = &ruleState{Rule: fmt.Sprintln(r, group.Interval(), group.QueryOffset(), group.Limit(), r.labels, r.text, r.alert)}
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no recording rule in %s: give files that have some, or --alerts for alerting rules", strings.Join(o.Files, ", "))
	}
	return all, nil
}

// parse notes what a rule reads and writes.
func (o *Options) parse(from rulefmt.Rule, own labels.Labels) (*rule, error) {
	expr, err := o.Parser.ParseExpr(from.Expr)
	if err != nil {
		return nil, err
	}
	r := &rule{name: from.Record + from.Alert, text: expr.String(), labels: own, reads: parser.ExtractSelectors(expr)}
	// These are the time of each evaluation.
	r.steps = strings.Contains(r.text, "@ start()") || strings.Contains(r.text, "@ end()")
	known, names := labels.NewBuilder(own), []string{r.name}
	if from.Alert != "" {
		own.Range(func(l labels.Label) {
			if strings.Contains(l.Value, "{{") {
				known.Del(l.Name)
			}
		})
		known.Set(labels.AlertName, r.name)
		names = []string{"ALERTS", "ALERTS_FOR_STATE"}
		// Annotations are in no sample.
		r.alert = rules.NewAlertingRule(r.name, expr, time.Duration(from.For), time.Duration(from.KeepFiringFor), own,
			labels.EmptyLabels(), labels.EmptyLabels(), "", true, promslog.NewNopLogger())
	}
	for _, name := range names {
		r.writes = append(r.writes, known.Set(model.MetricNameLabel, name).Labels())
	}
	return r, nil
}

// mayMatch reports whether a series may match of which some labels are known.
func mayMatch(known labels.Labels, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return known.Has(m.Name) && !m.Matches(known.Get(m.Name)) })
}

// offset is the query_offset, in ms.
func (r *rule) offset() int64 { return r.group.QueryOffset().Milliseconds() }

// delay is how long after its time, in ms, a sample of the rule is there for a reader.
func (r *rule) delay(reader *rule) int64 {
	if r.group == reader.group && r.index >= reader.index {
		return r.offset() + 1 // the reader is evaluated before it
	}
	return r.offset()
}

// order cuts the rules, in the order of their files, into units that are evaluated one after another. A
// rule that reads what itself or one behind it records is in a unit with all up to that one. It notes
// which rules need single steps.
func order(all []*rule) (units [][]*rule) {
	for first, end, i := 0, 0, 0; i < len(all); i++ {
		r := all[i]
		end = max(end, i)
		for j, from := range all {
			for _, known := range from.writes {
				if slices.ContainsFunc(r.reads, func(matchers []*labels.Matcher) bool { return mayMatch(known, matchers) }) {
					end, r.recorded = max(end, j), true
					r.steps = r.steps || from.delay(r) > r.offset()
				}
			}
		}
		if i == end {
			unit := all[first : end+1]
			for _, r := range unit {
				r.steps = r.steps || len(unit) > 1
			}
			units, first = append(units, unit), end+1
		}
	}
	return units
}

// grid holds the times in [mint, maxt), in ms, of the rule's samples.
func (r *rule) grid(mint, maxt int64) plan.Grid {
	offset, interval := r.group.QueryOffset(), r.group.Interval().Milliseconds()
	start := timestamp.FromTime(r.group.EvalTimestamp(timestamp.Time(mint).Add(offset).UnixNano()).Add(-offset))
	if start < mint {
		start += interval
	}
	return plan.NewGrid(start, maxt-1, interval)
}
