package planner

import (
	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

// relabel compiles label_replace and label_join.
func (w *walker) relabel(e *parser.Call, sc scope) (plan.Node, string) {
	args, ok := literals(e.Args[1:])
	if !ok {
		return nil, reasonNotLiteral(e)
	}
	r := &plan.Relabel{Name: e.Func.Name, Label: args[0], Pos: e.PosRange, Text: e.String()}
	names := args[:1] // those that must be valid
	if e.Func.Name == "label_replace" {
		r.Template, r.Source = args[1], args[2:3]
		var err error
		if r.Regexp, err = regexp.Compile("^(?s:" + args[3] + ")$"); err != nil {
			return nil, "its regular expression is not valid, which is for Prometheus's engine to say"
		}
	} else {
		r.Separator, r.Source = args[1], args[2:]
		names = append(r.Source[:len(r.Source):len(r.Source)], r.Label)
	}
	for _, name := range names {
		if !model.UTF8Validation.IsValidLabelName(name) {
			return nil, "the name of a label is not valid, which is for Prometheus's engine to say"
		}
	}
	sc.selectorRefused = ""
	var reason string
	if r.Input, reason = w.compile(e.Args[0], sc); r.Input == nil {
		return nil, inputStays + reason
	}
	if w.env.DelayedNameRemoval && r.Regexp != nil && r.Input.DropsName() && !r.DropsName() {
		return nil, "names are to be removed later from those series only whose label does not match"
	}
	return r, ""
}

// sort compiles a function that sorts series.
func (w *walker) sort(e *parser.Call, sc scope) (plan.Node, string) {
	names, ok := literals(e.Args[1:])
	if !ok {
		return nil, reasonNotLiteral(e)
	}
	s := &plan.Sort{Name: e.Func.Name, Labels: names, Ranged: !sc.instant, Pos: e.PosRange, Text: e.String()}
	sc.selectorRefused = ""
	var reason string
	if s.Input, reason = w.compile(e.Args[0], sc); s.Input == nil {
		return nil, inputStays + reason
	}
	return s, ""
}

// literals returns the values of expressions that are literal strings.
func literals(es parser.Expressions) (values []string, ok bool) {
	for _, e := range es {
		s, ok := e.(*parser.StringLiteral)
		if !ok {
			return nil, false
		}
		values = append(values, s.Val)
	}
	return values, true
}

func reasonNotLiteral(e *parser.Call) string {
	return e.Func.Name + " with a string that is not a literal is not on an executor yet"
}
