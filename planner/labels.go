package planner

import (
	"fmt"

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
	fails := func(format, arg string) (plan.Node, string) {
		return &plan.Failure{Err: fmt.Errorf(format+e.Func.Name+"(): %s", arg), Pos: e.PosRange, Text: e}, ""
	}
	const wrongSource, wrongLabel = "invalid source label name in ", "invalid destination label name in "
	r := &plan.Relabel{Name: e.Func.Name, Label: args[0], Pos: e.PosRange, Text: e, Merges: w.merges(e.PosRange)}
	if e.Func.Name == "label_replace" {
		r.Template, r.Source = args[1], args[2:3]
		var err error
		if r.Regexp, err = regexp.Compile("^(?s:" + args[3] + ")$"); err != nil {
			return fails("invalid regular expression in ", args[3])
		}
	} else {
		r.Separator, r.Source = args[1], args[2:]
		for _, name := range r.Source {
			if !model.UTF8Validation.IsValidLabelName(name) {
				return fails(wrongSource, name)
			}
		}
	}
	if !model.UTF8Validation.IsValidLabelName(r.Label) {
		return fails(wrongLabel, r.Label)
	}
	sc.selectorRefused, sc.anyName = "", false
	var reason string
	if r.Input, reason = w.compile(e.Args[0], sc); r.Input == nil {
		return nil, stays(reason)
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
	s := &plan.Sort{Name: e.Func.Name, Labels: names, Ranged: !sc.instant, Pos: e.PosRange, Text: e}
	sc.selectorRefused = ""
	var reason string
	if s.Input, reason = w.compile(e.Args[0], sc); s.Input == nil {
		return nil, stays(reason)
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
