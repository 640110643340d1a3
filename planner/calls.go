package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// absent compiles absent and absent_over_time.
func (w *walker) absent(f *plan.WindowFunc, e *parser.Call, sc scope) plan.Node {
	known, ok := absentLabels(e.Args[0])
	if !ok {
		return w.leave(e, e.Func.Name+" with matchers of one label whose order decides is evaluated by Prometheus's engine")
	}
	a := &plan.Absent{Labels: known, OverTime: f != nil, Origin: w.origin(e)}
	if a.OverTime {
		a.Input = w.window(f, e, sc)
	} else {
		a.Input = w.compile(e.Args[0], sc)
	}
	return a
}

// absentLabels are the labels that a selector states by an equality matcher:
// what is known of a series that is not there. Anything but a bare selector
// states none.
//
// Of several matchers of a label the last one says whether the label is known: one for
// equality, if it is the only such. A storage may have changed their order by then:
// Prometheus's own puts what is taken away from the rest last. Where that makes a
// difference, absentLabels reports false.
func absentLabels(e parser.Expr) (labels.Labels, bool) {
	var ms []*labels.Matcher
	switch e := e.(type) {
	case *parser.VectorSelector:
		ms = e.LabelMatchers
	case *parser.MatrixSelector:
		ms = e.VectorSelector.(*parser.VectorSelector).LabelMatchers
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	seen := map[string][]*labels.Matcher{}
	for _, m := range ms {
		if m.Name != model.MetricNameLabel {
			seen[m.Name] = append(seen[m.Name], m)
		}
	}
	for name, of := range seen {
		last, rest := of[len(of)-1], of[:len(of)-1]
		if last.Type != labels.MatchEqual || slices.ContainsFunc(rest, isEqual) {
			continue
		}
		if slices.ContainsFunc(rest, func(m *labels.Matcher) bool { return m.Matches("") }) {
			return labels.EmptyLabels(), false
		}
		b.Set(name, last.Value)
	}
	return b.Labels(), true
}

func isEqual(m *labels.Matcher) bool { return m.Type == labels.MatchEqual }

// histogram compiles a function of classic histograms.
func (w *walker) histogram(f *plan.HistogramFunc, e *parser.Call, sc scope) plan.Node {
	h := &plan.Histogram{
		Func: f, ArgPos: w.pos(e.Args[0]), InputPos: w.pos(e.Args[f.Args]), Origin: w.origin(e),
	}
	if f.Many {
		h.Label = e.Args[1].(*parser.StringLiteral).Val
		switch h.Label {
		case "":
			return w.leave(e, "a label without a name is for Prometheus's engine to complain of")
		case model.MetricNameLabel: // which that engine drops behind some functions over a subquery, and behind others not
			return w.leave(e, "histogram_quantiles that writes the name of the metric is not on an executor yet")
		}
		for _, a := range e.Args[2:] {
			c, ok := w.constant(a)
			if !ok {
				return w.leave(e, "histogram_quantiles with a parameter that is not a constant is not on an executor yet")
			}
			h.Args, h.ArgsPos = append(h.Args, c), append(h.ArgsPos, w.pos(a))
		}
	}
	constants := true
	for _, a := range e.Args[:f.Args] {
		c, ok := w.constant(a)
		constants = constants && ok
		h.Args = append(h.Args, c)
	}
	for i := 0; i < f.Args && !constants; i++ {
		h.ArgNodes = append(h.ArgNodes, w.scalar(e.Args[i], sc))
	}
	if w.of(e.Args[f.Args]).histogram { // that engine adds the notes of the inner one to those of the outer
		return w.leave(e, "a histogram function over another is evaluated by Prometheus's engine")
	}
	sc.forgetNames(true)
	h.Input = w.compile(e.Args[f.Args], sc)
	return h
}

// info compiles the function info.
func (w *walker) info(e *parser.Call, sc scope) plan.Node {
	at := referenceOf(e.Args[0])
	switch {
	case at.timestamp != nil && sc.moved:
		return w.leave(e, "info() of a selector with @ lies under a subquery with an offset or @")
	case at.timestamp != nil && sc.grid.Steps > 1:
		return w.leave(e, "info() of a selector with @ is read at every step")
	}
	n := &plan.Info{
		Lookback: w.lookback, Offset: at.offset.Milliseconds(), Fixed: at.timestamp,
		Origin: w.origin(e),
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
	n.Input = w.compile(e.Args[0], sc)
	return n
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
		if _, ok := vector.Called(e.Func.Name).Node.(*plan.Info); ok {
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

// relabel compiles label_replace and label_join.
func (w *walker) relabel(pattern int, e *parser.Call, sc scope) plan.Node {
	args, ok := literals(e.Args[1:])
	if !ok {
		return w.leave(e, reasonNotLiteral(e))
	}
	fails := func(format, arg string) plan.Node {
		return &plan.Failure{Err: fmt.Errorf(format+e.Func.Name+"(): %s", arg), Origin: w.origin(e)}
	}
	const wrongSource, wrongLabel = "invalid source label name in ", "invalid destination label name in "
	r := &plan.Relabel{Label: args[0], Origin: w.origin(e)}
	if pattern > 0 {
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
	sc.anyName = false
	r.Input = w.compile(e.Args[0], sc)
	if w.left == nil && w.env.DelayedNameRemoval && r.Regexp != nil && r.Input.DropsName() && !r.DropsName() && !matchesAll(r, args[3]) {
		return w.leave(e, "names are to be removed later from those series only whose label does not match")
	}
	return r
}

// matchesAll reports whether a label_replace surely changes all series, by its pattern.
func matchesAll(r *plan.Relabel, pattern string) bool {
	return pattern == ".*" || pattern == "(.*)" || r.Source[0] == "" && r.Regexp.MatchString("")
}

// sort compiles a function that sorts series.
func (w *walker) sort(e *parser.Call, sc scope) plan.Node {
	names, ok := literals(e.Args[1:])
	if !ok {
		return w.leave(e, reasonNotLiteral(e))
	}
	return &plan.Sort{Name: e.Func.Name, Labels: names, Ranged: !sc.instant, Input: w.compile(e.Args[0], sc), Origin: w.origin(e)}
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

// timestamp compiles timestamp and start_timestamp of a bare selector, which read the
// samples' own times; of anything else timestamp is the time of the step. Neither
// function cares whether the selector is anchored or smoothed.
func (w *walker) timestamp(f *plan.WindowFunc, e *parser.Call, sc scope) plan.Node {
	v, ok := e.Args[0].(*parser.VectorSelector)
	switch {
	case !ok && f == window.Timestamp:
		return w.stepMapped(&plan.StepMap{Func: vector.StepTime, Origin: w.origin(e)}, e.Args, sc)
	case !ok:
		return w.leave(e, f.Name+" of anything but a selector is not on an executor yet")
	case v.Timestamp != nil && v.OriginalOffset != 0:
		return w.leave(e, f.Name+" of a selector with @ and an offset is evaluated by Prometheus's engine, which leaves the offset out")
	case f.StartTime && !w.env.StartTimestamps:
		return w.leave(e, "start_timestamp has no result where the engine does not use start timestamps")
	}
	return &plan.Window{Scan: w.scan(v, sc), Func: f, Width: w.lookback, ArgPos: v.PosRange, Origin: w.origin(e)}
}

// extension says which samples beside its windows function f reads of a range
// selector, or why it stays with Prometheus's engine.
func (w *walker) extension(f *plan.WindowFunc, m *parser.MatrixSelector) (plan.Extension, string) {
	v := m.VectorSelector.(*parser.VectorSelector)
	modifier, name := plan.Unmodified, ""
	switch {
	case m.Range%time.Millisecond != 0 || v.OriginalOffset%time.Millisecond != 0:
		return plan.Extension{}, "its range and its offset are no whole milliseconds, which Prometheus's engine rounds in several ways"
	case v.Anchored:
		modifier, name = plan.Anchored, "an anchored"
	case v.Smoothed:
		modifier, name = plan.Smoothed, "a smoothed"
	default:
		return plan.Extension{}, ""
	}
	if !slices.Contains(f.Modifiers, modifier) {
		return plan.Extension{}, fmt.Sprintf("%s of %s selector is an error that Prometheus's engine raises", f.Name, name)
	}
	return plan.NewExtension(modifier, w.lookback), ""
}

const reasonMetadata = "Prometheus's engine may remove the type or unit that is set within a subquery"

// losesMetadata reports whether e keeps names over a subquery in which a type or
// unit is set. Prometheus's engine remembers of series in a subquery that they are
// to lose their name, type and unit, and then takes away those that were set since.
func (w *walker) losesMetadata(e *parser.Call) bool {
	f := window.Named(e.Func.Name)
	return f != nil && f.KeepsName && !w.env.DelayedNameRemoval && w.of(e).metadata
}
