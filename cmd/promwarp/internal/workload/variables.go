package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

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
}

// newFilling gathers the values: Grafana's own, those that the dashboard was saved with, and those
// that the user gives.
func newFilling(list []variable, o Options) *filling {
	text := func(d time.Duration) string { return model.Duration(d).String() }
	f := &filling{used: map[string]bool{}, values: map[string]string{
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

// notes say what the variables that came up were filled with.
func (f *filling) notes() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(f.used)) {
		all = append(all, fmt.Sprintf("$%s is %s", name, f.values[name]))
	}
	return all
}
