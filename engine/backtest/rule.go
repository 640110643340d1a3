// Package backtest tries alerting rules on the past.
//
// A rule file goes in, and a Source that evaluates expressions over a range; out comes for each rule a
// Report: when each alert was pending and firing. The states are those of Prometheus's own
// rules.AlertingRule, at the very times at which a Prometheus that loads the file evaluates the group.
// A rule's alerts begin inactive at the first of these times.
//
// Another threshold needs no other evaluation: of `sum(x) > 0.9` the left side is evaluated, and compared
// with any number afterwards. Retained keeps left sides for requests that ask again.
//
// Start with Parse and Rule.Try.
package backtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"

	"github.com/promwarp/promwarp/plan"
)

// Rule is an alerting rule of a file. For, KeepFiringFor and Threshold may be changed before Try.
type Rule struct {
	Group, Alert       string
	Expr               parser.Expr
	For, KeepFiringFor time.Duration
	// Threshold is the number that the expression compares with; nil if that is none.
	Threshold *Threshold

	group    *rules.Group
	labels   labels.Labels
	recorded []string // names that recording rules of the file give
}

// Threshold is the outermost comparison of an expression with a number.
type Threshold struct {
	Op    string            `json:"op"`
	Value model.SampleValue `json:"value"`
	// Compared is the expression's other side, with what the comparison is and-ed with.
	Compared string `json:"compared"`

	op     parser.ItemType
	before bool // the number stands on the left
}

// loader has Prometheus load rules that are in memory.
type loader struct {
	parser.Parser
	content []byte
	read    *rulefmt.RuleGroups
}

// Load implements rules.GroupLoader.
func (l *loader) Load(_ string, unknown bool, names model.ValidationScheme) (all *rulefmt.RuleGroups, errs []error) {
	l.read, errs = rulefmt.Parse(l.content, unknown, names, l.Parser, slog.New(slog.DiscardHandler))
	return l.read, errs
}

// Parse implements rules.GroupLoader.
func (l *loader) Parse(query string) (parser.Expr, error) { return l.ParseExpr(query) }

// Parse reads the alerting rules of a file in their order. The file's name counts: a group's evaluation
// times depend on it. Groups without an interval have the given one.
func Parse(file string, content []byte, interval time.Duration, p parser.Parser) ([]*Rule, error) {
	l := &loader{Parser: p, content: content}
	groups, errs := rules.NewManager(&rules.ManagerOptions{GroupLoader: l, Parser: p}).LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	if len(errs) > 0 { // what is no YAML is said twice
		return nil, errors.Join(slices.CompactFunc(errs, func(a, b error) bool { return a.Error() == b.Error() })...)
	}
	var all []*Rule
	var recorded []string
	for _, named := range l.read.Groups {
		g := groups[rules.GroupKey(file, named.Name)]
		for _, r := range g.Rules() {
			alerting, ok := r.(*rules.AlertingRule)
			if !ok {
				recorded = append(recorded, r.Name())
				continue
			}
			expr := alerting.Query()
			if pinned(expr) {
				return nil, fmt.Errorf("group %q, alert %q: @ start() and @ end() mean another time at each evaluation, which one range query cannot tell: leave them out", g.Name(), r.Name())
			}
			rest, threshold := split(expr)
			if threshold != nil {
				threshold.Compared = rest.String()
			}
			all = append(all, &Rule{
				Group: g.Name(), Alert: r.Name(), Expr: expr, For: alerting.HoldDuration(), KeepFiringFor: alerting.KeepFiringFor(),
				Threshold: threshold, group: g, labels: alerting.Labels(),
			})
		}
	}
	for _, r := range all {
		r.recorded = recorded
	}
	return all, nil
}

// pinned reports whether an expression has `@ start()` or `@ end()`, which of a rule mean the time of each
// evaluation, but of a range query the ends of the range.
func pinned(expr parser.Expr) (found bool) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			found = found || n.StartOrEnd != 0
		case *parser.SubqueryExpr:
			found = found || n.StartOrEnd != 0
		}
		return nil
	})
	return found
}

// split takes the outermost comparison with a number out of an expression; it returns nil if there is none. A
// comparison filters series one by one, so that `(a > 1) and b` is `(a and b) > 1`.
func split(expr parser.Expr) (rest parser.Expr, t *Threshold) {
	switch n := expr.(type) {
	case *parser.ParenExpr:
		return split(n.Expr)
	case *parser.BinaryExpr:
		if n.Op == parser.LAND || n.Op == parser.LUNLESS {
			if rest, t = split(n.LHS); t != nil {
				both := *n
				both.LHS = &parser.ParenExpr{Expr: rest}
				return &both, t
			}
		}
		if !n.Op.IsComparisonOperator() || n.ReturnBool {
			return nil, nil
		}
		if v, ok := number(n.RHS); ok && n.LHS.Type() == parser.ValueTypeVector {
			return n.LHS, &Threshold{Op: n.Op.String(), op: n.Op, Value: model.SampleValue(v)}
		}
		if v, ok := number(n.LHS); ok && n.RHS.Type() == parser.ValueTypeVector {
			return n.RHS, &Threshold{Op: n.Op.String(), op: n.Op, Value: model.SampleValue(v), before: true}
		}
	}
	return nil, nil
}

// number is the value of an expression that is a number.
func number(expr parser.Expr) (float64, bool) {
	switch n := expr.(type) {
	case *parser.NumberLiteral:
		return n.Val, true
	case *parser.ParenExpr:
		return number(n.Expr)
	case *parser.UnaryExpr:
		v, ok := number(n.Expr)
		if n.Op == parser.SUB {
			v = -v
		}
		return v, ok
	}
	return 0, false
}

// keeps reports whether the comparison lets a value through.
func (t *Threshold) keeps(v float64) bool {
	left, right := v, float64(t.Value)
	if t.before {
		left, right = right, left
	}
	switch t.op {
	case parser.EQLC:
		return left == right
	case parser.NEQ:
		return left != right
	case parser.GTR:
		return left > right
	case parser.LSS:
		return left < right
	case parser.GTE:
		return left >= right
	}
	return left <= right
}

// MostSteps is at how many times at most a rule is evaluated.
const MostSteps = 1_000_000

// Try says what the rule's alerts would have done from start to end. With compared, the expression without
// its threshold is evaluated, if it has one.
func (r *Rule) Try(ctx context.Context, from Source, start, end time.Time, compared bool) (*Report, error) {
	interval, offset := r.group.Interval(), r.group.QueryOffset()
	first := r.group.EvalTimestamp(start.UnixNano())
	if first.Before(start) {
		first = first.Add(interval)
	}
	if end.Before(first) {
		return nil, fmt.Errorf("the group %q is evaluated every %s, at no time from %s to %s: ask for a longer time", r.Group, interval, start.Format(time.RFC3339), end.Format(time.RFC3339))
	}
	steps := end.Sub(first)/interval + 1
	if steps > MostSteps {
		return nil, fmt.Errorf("the group %q is evaluated %d times in that time, and at most %d are tried: ask for a shorter time, or a longer interval", r.Group, steps, MostSteps)
	}
	t := &trial{
		rule: r, from: from, first: first, steps: int(steps), episodes: map[int][]Spell{},
		grid: plan.Grid{Start: timestamp.FromTime(first.Add(-offset)), Interval: interval.Milliseconds(), Steps: int(steps)},
		report: &Report{
			Group: r.Group, Alert: r.Alert, Expr: r.Expr.String(), Interval: interval.Seconds(), For: r.For.Seconds(),
			KeepFiringFor: r.KeepFiringFor.Seconds(), Threshold: r.Threshold, Steps: int(steps),
			Start: model.TimeFromUnixNano(first.UnixNano()), End: model.TimeFromUnixNano(first.Add((steps - 1) * interval).UnixNano()),
		},
	}
	expr, keeps := t.report.Expr, func(float64) bool { return true }
	if compared = compared && r.Threshold != nil; compared {
		expr, keeps = r.Threshold.Compared, r.Threshold.keeps
	}
	rows, err := from.Range(ctx, expr, t.grid, !compared)
	if err == nil {
		err = t.run(ctx, rows, keeps)
	}
	if err == nil {
		err = t.unrecorded(ctx, start, end)
	}
	if err != nil {
		return nil, err
	}
	return t.finish(), nil
}

// unrecorded notes selectors of results that the file's recording rules give, and that there are none of.
func (t *trial) unrecorded(ctx context.Context, start, end time.Time) error {
	for _, selectors := range parser.ExtractSelectors(t.rule.Expr) {
		for _, m := range selectors {
			if m.Name != model.MetricNameLabel || m.Type != labels.MatchEqual || !slices.Contains(t.rule.recorded, m.Value) {
				continue
			}
			s := &parser.VectorSelector{LabelMatchers: selectors}
			present := fmt.Sprintf("count(present_over_time(%s[%s]))", s, model.Duration(end.Sub(start).Truncate(time.Second)+time.Second))
			found, err := t.from.Range(ctx, present, plan.Grid{Start: timestamp.FromTime(end), Interval: 1, Steps: 1}, false)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				t.report.Notes = append(t.report.Notes, fmt.Sprintf("%s is recorded by a rule of this file, and the upstream has no samples of %s in that time: the alert is tried as if there were none", m.Value, s))
			}
		}
	}
	return nil
}
