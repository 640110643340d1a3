package planner

import (
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/plan"
)

const reasonInfoReference = "info() reads its info series at the time of the selectors in its first argument"

// info compiles the function info.
func (w *walker) info(e *parser.Call, sc scope) (plan.Node, string) {
	at := referenceOf(e.Args[0])
	switch {
	case at.timestamp != nil && sc.moved:
		return nil, "info() of a selector with @ lies under a subquery with an offset or @"
	case at.timestamp != nil && sc.grid.Steps > 1:
		return nil, "info() of a selector with @ is read at every step"
	}
	n := &plan.Info{
		Lookback: w.lookback, Offset: at.offset.Milliseconds(), Fixed: at.timestamp,
		Pos: e.PosRange, Text: e,
	}
	if len(e.Args) > 1 {
		for _, m := range e.Args[1].(*parser.VectorSelector).LabelMatchers {
			if m.Name == model.MetricNameLabel {
				n.Names = append(n.Names, m)
			} else {
				n.Data = append(n.Data, m)
			}
		}
	}
	n.Names = infoNames(n.Names)
	sc.selectorRefused = ""
	var reason string
	if n.Input, reason = w.compile(e.Args[0], sc); n.Input == nil {
		return nil, stays(reason)
	}
	return n, ""
}

// insideInfo walks the arguments of a call of info that stays with Prometheus's engine. That
// engine looks at the selectors in the first to know when it is to read the info series, and
// of a stand-in it takes the time of the step.
func (w *walker) insideInfo(d *plan.Decision, e *parser.Call, sc scope) {
	if at := referenceOf(e.Args[0]); at != (reference{}) {
		sc.refused = reasonInfoReference
	}
	d.Children = append(d.Children, w.walk(&e.Args[0], sc)) // the second one is never evaluated
}

// infoNames are the matchers of the names of info series, given those of the query: without
// any it is target_info, and with none that names some it is all that end like it.
func infoNames(given []*labels.Matcher) []*labels.Matcher {
	if len(given) == 0 {
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "target_info")}
	}
	for _, m := range given {
		if m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp {
			return given
		}
	}
	all := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+_info")}
	return append(all, given...)
}

// reference is the time at which a selector is read: that of the @, or of the step where
// there is none, less an offset.
type reference struct {
	timestamp *int64 // ms
	offset    time.Duration
}

// same reports whether two selectors are read at the same time.
func (r reference) same(other reference) bool {
	if r.timestamp == nil || other.timestamp == nil {
		return r.timestamp == nil && other.timestamp == nil && r.offset.Milliseconds() == other.offset.Milliseconds()
	}
	return *r.timestamp-r.offset.Milliseconds() == *other.timestamp-other.offset.Milliseconds()
}

// references finds when the selectors of an expression are read.
type references struct {
	found []reference
	// free says that something in the expression has a value at the time of the step,
	// whatever is selected.
	free bool
}

// referenceOf is the time at which info reads its info series: that of the selectors in its
// first argument, or of the step if they do not all have the same.
func referenceOf(e parser.Expr) reference {
	var rs references
	rs.visit(e, nil)
	if rs.free || len(rs.found) == 0 {
		return reference{}
	}
	for _, r := range rs.found[1:] {
		if !rs.found[0].same(r) {
			return reference{}
		}
	}
	return rs.found[0]
}

// visit collects the references in e, which lies in those subqueries, the innermost last,
// and reports whether e has a selector.
func (rs *references) visit(e parser.Expr, in []*parser.SubqueryExpr) bool {
	if t := e.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeMatrix {
		return false
	}
	children := parser.ChildrenIter(e)
	switch e := e.(type) {
	case *parser.VectorSelector:
		r := reference{e.Timestamp, e.OriginalOffset}
		for k := len(in) - 1; k >= 0 && r.timestamp == nil; k-- {
			r.timestamp = in[k].Timestamp
			r.offset += in[k].OriginalOffset
		}
		rs.found = append(rs.found, r)
		return true
	case *parser.SubqueryExpr:
		in = append(in[:len(in):len(in)], e)
	case *parser.Call:
		if e.Func.Name == "info" {
			return rs.visit(e.Args[0], in)
		}
	}
	any := false
	for child := range children {
		if sub, ok := child.(parser.Expr); ok && rs.visit(sub, in) {
			any = true
		}
	}
	rs.free = rs.free || !any
	return any
}
