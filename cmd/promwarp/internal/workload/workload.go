// Package workload reads the queries of a file: lines of PromQL, lists in YAML, rules, or a Grafana
// dashboard, whose variables it fills in.
//
// A file comes in, as bytes; out come queries in the file's order, each once, and notes on what was
// filled in or left out. Start with Read.
package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"
)

// Query is one query of a workload.
type Query struct {
	Expr    string
	Instant bool   // it is asked at one time, as rules are
	From    string // what the file calls it: the title of a panel, the name of a rule; may be empty
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
// anything else is lines.
func Read(file string, content []byte, o Options) (w Workload, err error) {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".json":
		w, err = readDashboard(content, o)
	case ".yml", ".yaml":
		w, err = readYAML(content)
	default:
		w = readLines(content)
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

// readLines reads a query a line, but for empty lines and comments.
func readLines(content []byte) (w Workload) {
	for line := range bytes.Lines(content) {
		if line = bytes.TrimSpace(line); !bytes.HasPrefix(line, []byte("#")) {
			w.add(Query{Expr: string(line)})
		}
	}
	return w
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

// dashboard is a Grafana dashboard, as far as queries go, or one as Grafana's API wraps it. Those
// of the second schema have elements in place of panels.
type dashboard struct {
	Dashboard  *dashboard `json:"dashboard"`
	Spec       *dashboard `json:"spec"`
	Panels     []panel    `json:"panels"`
	Rows       []panel    `json:"rows"` // of old ones
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`

	Elements  map[string]element `json:"elements"`
	Layout    json.RawMessage    `json:"layout"`
	Variables []variableElement  `json:"variables"`
}

// panel is a panel or a row of them.
type panel struct {
	Title   string   `json:"title"`
	Panels  []panel  `json:"panels"`
	Targets []target `json:"targets"`
}

// target is a query of a panel.
type target struct {
	Expr       string          `json:"expr"`
	Instant    bool            `json:"instant"`
	Hide       bool            `json:"hide"`
	Datasource json.RawMessage `json:"datasource"`
	source     string          // its kind, in the second schema
}

// readDashboard reads the queries of a dashboard that are PromQL, hidden ones left out.
func readDashboard(content []byte, o Options) (w Workload, err error) {
	var d dashboard
	if err := json.Unmarshal(content, &d); err != nil {
		return w, fmt.Errorf("it is no dashboard's JSON: %w", err)
	}
	if d.Dashboard != nil {
		d = *d.Dashboard
	}
	if d.Spec != nil {
		d = *d.Spec
	}
	w.Notes = d.classic()
	f := newFilling(d.Templating.List, o)
	var read func(p panel)
	read = func(p panel) {
		for _, t := range p.Targets {
			if t.Expr == "" || t.Hide || !t.promQL() {
				continue
			}
			expr, err := f.fill(t.Expr)
			if err != nil {
				w.Notes = append(w.Notes, fmt.Sprintf("left out: %q of %q does not parse once its variables are filled in; --var=NAME=VALUE sets one: %v", expr, p.Title, err))
				continue
			}
			w.add(Query{Expr: expr, Instant: t.Instant, From: p.Title})
		}
		for _, inner := range p.Panels {
			read(inner)
		}
	}
	for _, p := range append(d.Panels, d.Rows...) {
		read(p)
	}
	w.Notes = append(f.notes(), w.Notes...)
	return w, nil
}

// promQL says whether the target is not known to be of another kind of data source.
func (t *target) promQL() bool {
	source := struct{ Type string }{t.source}
	_ = json.Unmarshal(t.Datasource, &source) // old ones are names
	return source.Type == "" || source.Type == "prometheus"
}
