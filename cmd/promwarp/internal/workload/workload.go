// Package workload reads the queries of a file: lines of PromQL, lists in YAML, rules, or a Grafana
// dashboard, whose variables it fills in.
//
// A file comes in, as bytes; out come queries in the file's order (elements of a dashboard in that of
// their names), each once, and notes on what was filled in or left out. Start with Read.
package workload

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v2"
)

// Query is one query of a workload.
type Query struct {
	Expr    string
	Instant bool   // it is asked at one time, as rules are
	From    string // what the file calls it: the titles of a panel's row and of it, the name of a rule; may be empty
}

// Workload is what a file asks for.
type Workload struct {
	Queries []Query
	// Notes say what variables were filled with, and what was left out, a sentence each.
	Notes []string
}

// Options say what Grafana's variables are filled with.
type Options struct {
	Step, Range time.Duration
	Scrape      time.Duration     // the scrape interval, for $__rate_interval
	Variables   map[string]string // by name; they win over what a dashboard has
}

// Read reads the queries of a file. By its name .json is a dashboard, .yml and .yaml are YAML, and
// anything else is a query a line, but for empty lines and comments.
func Read(file string, content []byte, o Options) (w Workload, err error) {
	switch ext := strings.ToLower(filepath.Ext(file)); {
	case isDashboard(file):
		w, err = readDashboard(content, o)
	case ext == ".yml" || ext == ".yaml":
		w, err = readYAML(content)
	default:
		for line := range bytes.Lines(content) {
			if line = bytes.TrimSpace(line); !bytes.HasPrefix(line, []byte("#")) {
				w.add(Query{Expr: string(line)})
			}
		}
	}
	if err == nil && len(w.Queries) == 0 {
		err = errors.New("there is no query in it")
	}
	if err != nil {
		return w, fmt.Errorf("%s: %w", file, err)
	}
	return w, nil
}

// add adds a query unless it is there already.
func (w *Workload) add(q Query) {
	q.Expr = strings.TrimSpace(q.Expr)
	same := func(p Query) bool { return p.Expr == q.Expr && p.Instant == q.Instant }
	if q.Expr != "" && !slices.ContainsFunc(w.Queries, same) {
		w.Queries = append(w.Queries, q)
	}
}

// ruleGroups are those of a rule file, or of Kubernetes's PrometheusRule.
type ruleGroups struct {
	Groups []struct {
		Rules []struct {
			Record string `yaml:"record"`
			Alert  string `yaml:"alert"`
			Expr   string `yaml:"expr"`
		} `yaml:"rules"`
	} `yaml:"groups"`
	Spec *ruleGroups `yaml:"spec"`
}

// readYAML reads rules, a list of queries, or lists of queries by any names.
func readYAML(content []byte) (w Workload, err error) {
	var rules ruleGroups
	var list []string
	var lists map[string][]string
	switch {
	case yaml.Unmarshal(content, &list) == nil:
		for _, expr := range list {
			w.add(Query{Expr: expr})
		}
	case yaml.Unmarshal(content, &lists) == nil:
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			for _, expr := range lists[name] {
				w.add(Query{Expr: expr, From: name})
			}
		}
	default:
		if err := yaml.Unmarshal(content, &rules); err != nil {
			return w, fmt.Errorf("it is neither rules nor a list of queries: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		groups := rules.Groups
		if rules.Spec != nil {
			groups = append(groups, rules.Spec.Groups...)
		}
		for _, g := range groups {
			for _, r := range g.Rules {
				w.add(Query{Expr: r.Expr, Instant: true, From: r.Record + r.Alert})
			}
		}
	}
	return w, nil
}

// dashboard is what a Grafana dashboard says beside its panels, in the first schema or in the second, or as
// Grafana's API wraps it.
type dashboard struct {
	Dashboard    *dashboard `json:"dashboard"`
	Spec         *dashboard `json:"spec"`
	Time         Range      `json:"time"`
	TimeSettings Range      `json:"timeSettings"`
	Layout       any        `json:"layout"`
	Templating   struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Variables []struct {
		Kind string   `json:"kind"` // such as QueryVariable
		Spec variable `json:"spec"`
	} `json:"variables"`
}

// Range is the time that a dashboard shows when it is opened, as Grafana writes it: now-6h to now.
type Range struct{ From, To string }

// RangeOf is the range that a dashboard was saved with; other files have none.
func RangeOf(file string, content []byte) Range {
	var d dashboard
	if !isDashboard(file) || json.Unmarshal(content, &d) != nil {
		return Range{} // Read says why
	}
	return cmp.Or(d.inner().Time, d.inner().TimeSettings)
}

func isDashboard(file string) bool { return strings.EqualFold(filepath.Ext(file), ".json") }

// inner is the dashboard without what wraps it.
func (d *dashboard) inner() *dashboard {
	for d.Dashboard != nil || d.Spec != nil {
		d = cmp.Or(d.Dashboard, d.Spec)
	}
	return d
}

// variables are those of either schema.
func (d *dashboard) variables() []variable {
	all := d.Templating.List
	for _, v := range d.Variables {
		v.Spec.Type = strings.Replace(strings.ToLower(strings.TrimSuffix(v.Kind, "Variable")), "text", "textbox", 1)
		all = append(all, v.Spec)
	}
	return all
}

// rowsOf notes which elements a layout shows below the title of a row or a tab.
func rowsOf(layout any, row string, rows map[string]string) {
	list, _ := layout.([]any)
	for _, v := range list {
		rowsOf(v, row, rows)
	}
	m, _ := layout.(map[string]any)
	if name, ok := m["name"].(string); ok && m["kind"] == "ElementReference" {
		rows[name] = row
	}
	if title, ok := m["title"].(string); ok {
		row = title
	}
	for _, v := range m {
		rowsOf(v, row, rows)
	}
}

// readDashboard reads the queries of a dashboard that are PromQL, hidden ones left out.
func readDashboard(content []byte, o Options) (w Workload, err error) {
	var d dashboard
	var all any
	if err := errors.Join(json.Unmarshal(content, &d), json.Unmarshal(content, &all)); err != nil {
		return w, fmt.Errorf("it is no dashboard's JSON: %w", err)
	}
	inner := d.inner()
	f := newFilling(inner.variables(), o)
	rowsOf(inner.Layout, "", f.rows)
	w.read(all, place{}, f)
	var filled []string
	for _, name := range slices.Sorted(maps.Keys(f.used)) {
		filled = append(filled, fmt.Sprintf("$%s is %s", name, f.values[name]))
	}
	w.Notes = append(filled, w.Notes...)
	return w, nil
}

// place is where in a dashboard a query is: the titles of its row and its panel, and what kind of data source
// is asked, empty where that is not known.
type place struct{ row, title, source string }

func (p place) String() string {
	return strings.TrimSuffix(strings.TrimPrefix(p.row+" / "+p.title, " / "), " / ")
}

// read reads the queries in part of a dashboard, at a place. Whatever has an expr is one, wherever a schema
// puts it.
func (w *Workload) read(part any, at place, f *filling) {
	list, _ := part.([]any)
	for _, v := range list {
		if m, ok := v.(map[string]any); ok && m["type"] == "row" { // of the panels behind it, or in it
			at.row, _ = m["title"].(string)
			at.row = f.show(at.row)
		}
		w.read(v, at, f)
	}
	m, _ := part.(map[string]any)
	text := func(key string) string {
		s, _ := m[key].(string)
		return s
	}
	if m["schemaVersion"] == nil && m["timeSettings"] == nil { // of a dashboard it is no panel's
		at.title = cmp.Or(f.show(text("title")), at.title)
	}
	if from, ok := m["datasource"].(map[string]any); ok {
		at.source, _ = from["type"].(string)
	} else if strings.Contains(strings.ToLower(text("datasource")), "loki") { // old ones are names
		at.source = "loki"
	}
	isQuery := text("expr") != "" || text("refId") != ""
	// A query of the second schema says its kind beside its spec, in the first form as the kind itself.
	if spec, ok := m["spec"].(map[string]any); ok && (text("kind") == "DataQuery" || spec["expr"] != nil) {
		at.source, isQuery = text("group"), true
		if text("kind") != "DataQuery" {
			at.source = cmp.Or(at.source, text("kind"))
		}
	}
	if text("kind") == "LibraryPanel" {
		spec, _ := m["spec"].(map[string]any)
		w.Notes = append(w.Notes, fmt.Sprintf("left out: %q is a library's panel, whose queries are not in the file", spec["title"]))
		return
	}
	if m["hide"] == true || m["hidden"] == true {
		return
	}
	if isQuery && !slices.Contains([]string{"", "prometheus", "datasource"}, at.source) {
		note := fmt.Sprintf("skipped: %q asks %s and not Prometheus", at, at.source)
		if !slices.Contains(w.Notes, note) {
			w.Notes = append(w.Notes, note)
		}
		return
	}
	if expr := text("expr"); expr != "" {
		filled, err := f.fill(expr)
		if err != nil {
			w.Notes = append(w.Notes, fmt.Sprintf("left out: %q of %q does not parse once its variables are filled in; --var=NAME=VALUE sets one: %v", filled, at, err))
			return
		}
		w.add(Query{Expr: filled, Instant: m["instant"] == true, From: at.String()})
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		next := at
		if row, ok := f.rows[key]; ok {
			next.row = f.show(row)
		}
		if key == "panels" { // of a row, or of the dashboard
			next = place{row: cmp.Or(at.row, at.title)}
		}
		if !slices.Contains([]string{"annotations", "templating", "variables", "layout"}, key) {
			w.read(m[key], next, f)
		}
	}
}

// variable is one of a dashboard's.
type variable struct {
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Query    json.RawMessage `json:"query"`
	AllValue string          `json:"allValue"`
	Current  any             `json:"current"` // an object with a value, or the value alone
}

// anything is what a variable is filled with whose value is all there are, or not known.
const anything = ".+"

// filling fills in variables, and notes which.
type filling struct {
	values map[string]string
	used   map[string]bool
	parser parser.Parser
	rows   map[string]string // titles by the name of an element below them
}

// show is a title as Grafana shows it.
func (f *filling) show(title string) string {
	return reference.ReplaceAllStringFunc(title, func(text string) string {
		m := reference.FindStringSubmatch(text)
		value := cmp.Or(f.values[m[1]+m[2]+m[3]], text)
		if value == anything {
			return "All"
		}
		return strings.ReplaceAll(strings.Trim(value, "()"), "|", " + ")
	})
}

// newFilling gathers the values: Grafana's own, the ones that the dashboard was saved with, and
// the user's.
func newFilling(list []variable, o Options) *filling {
	text := func(d time.Duration) string { return model.Duration(d).String() }
	f := &filling{used: map[string]bool{}, rows: map[string]string{}, values: map[string]string{
		"__interval": text(o.Step), "__interval_ms": fmt.Sprint(o.Step.Milliseconds()),
		"__rate_interval": text(max(o.Step+o.Scrape, 4*o.Scrape)),
		"__range":         text(o.Range), "__range_s": fmt.Sprint(int64(o.Range.Seconds())), "__range_ms": fmt.Sprint(o.Range.Milliseconds()),
	}, parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true})}
	for _, v := range list {
		f.values[v.Name] = v.value(o)
	}
	maps.Copy(f.values, o.Variables)
	return f
}

// value is what the dashboard was saved with, or a value that lets the variable match anything.
func (v *variable) value(o Options) string {
	saved := v.Current
	if object, ok := saved.(map[string]any); ok {
		saved = object["value"]
	}
	list, several := saved.([]any)
	if !several {
		list = []any{saved}
	}
	var many []string
	for _, m := range list {
		if text, ok := m.(string); ok && (text != "" || several) {
			many = append(many, text)
		}
	}
	if len(many) == 0 {
		var query string
		_ = json.Unmarshal(v.Query, &query) // of a newer kind it is an object
		if first, _, _ := strings.Cut(query, ","); slices.Contains([]string{"interval", "custom", "constant", "textbox"}, v.Type) && first != "" {
			many = []string{strings.TrimSpace(first)}
		}
	}
	switch {
	case len(many) == 0 || slices.Contains(many, "$__all"):
		if v.AllValue != "" {
			return v.AllValue
		}
		return anything
	case v.Type == "interval" && (many[0] == "auto" || strings.HasPrefix(many[0], "$__auto")):
		return model.Duration(o.Step).String()
	case len(many) == 1:
		return many[0]
	}
	for i, m := range many {
		many[i] = strings.ReplaceAll(regexp.QuoteMeta(m), `\`, `\\`) // it stands in a string of PromQL
	}
	return "(" + strings.Join(many, "|") + ")"
}

// reference is $name, ${name}, ${name:format} or [[name]].
var reference = regexp.MustCompile(`\$(\w+)|\$\{(\w+)(?::[^}]*)?\}|\[\[(\w+)(?::\w+)?\]\]`)

// fill fills variables in. Where a label would have to equal a value that stands for several, it
// matches a regular expression instead.
func (f *filling) fill(expr string) (string, error) {
	filled := reference.ReplaceAllStringFunc(expr, func(text string) string {
		m := reference.FindStringSubmatch(text)
		name := m[1] + m[2] + m[3]
		if _, known := f.values[name]; !known {
			f.values[name] = anything
		}
		f.used[name] = true
		return f.values[name]
	})
	parsed, err := f.parser.ParseExpr(filled)
	if err != nil {
		return filled, err
	}
	changed := false
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			for i, m := range s.LabelMatchers {
				if wide := f.wide(m); wide != nil {
					s.LabelMatchers[i], changed = wide, true
				}
			}
		}
		return nil
	})
	if changed {
		return parsed.String(), nil
	}
	return filled, nil
}

// wide is a matcher of regular expressions in place of one that compares with the value of a variable
// which stands for several; nil where there is no need.
func (f *filling) wide(m *labels.Matcher) *labels.Matcher {
	to := labels.MatchRegexp
	switch m.Type {
	case labels.MatchEqual:
	case labels.MatchNotEqual:
		to = labels.MatchNotRegexp
	default:
		return nil
	}
	several := m.Value == anything || m.Value == ".*" || strings.HasPrefix(m.Value, "(") && strings.Contains(m.Value, "|")
	if !several || !slices.Contains(slices.Collect(maps.Values(f.values)), strings.ReplaceAll(m.Value, `\`, `\\`)) {
		return nil
	}
	wide, err := labels.NewMatcher(to, m.Name, m.Value)
	if err != nil {
		return nil // it is no regular expression after all
	}
	return wide
}
