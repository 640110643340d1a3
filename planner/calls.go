package planner

import (
	"fmt"
	"slices"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/histogram"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

func (w *walker) call(e *parser.Call, sc scope) plan.Node {
	if f := vector.Named(e.Func.Name); f != nil {
		if len(e.Args) == 0 {
			return &plan.Date{Func: f, Origin: w.origin(e)}
		}
		return w.mapCall(f, e, sc)
	}
	if f := histogram.Named(e.Func.Name); f != nil {
		return w.histogram(f, e, sc)
	}
	if f := window.Named(e.Func.Name); f != nil {
		return w.window(f, e, sc)
	}
	switch c := vector.Called(e.Func.Name); c.Node.(type) {
	case *plan.Absent:
		return w.absent(c.Window, e, sc)
	case *plan.Window:
		return w.timestamp(c.Window, e, sc)
	case *plan.Relabel:
		return w.relabel(c.Pattern, e, sc)
	case *plan.Info:
		return w.info(e, sc)
	case *plan.Sort:
		return w.sort(e, sc)
	case *plan.Vector:
		return &plan.Vector{Input: w.scalar(e.Args[0], sc), Origin: w.origin(e)}
	}
	return w.leave(e, fmt.Sprintf("the function %s is not on an executor yet", e.Func.Name))
}

// absent compiles absent and absent_over_time.
func (w *walker) absent(f *plan.WindowFunc, e *parser.Call, sc scope) plan.Node {
	known, ok := absentLabels(e.Args[0])
	if !ok {
		return w.leave(e, e.Func.Name+" with matchers of one label whose order decides is evaluated by Prometheus's engine")
	}
	a := &plan.Absent{Labels: known, OverTime: f != nil, Unary: plan.Unary{Origin: w.origin(e)}}
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
		if last.Type != labels.MatchEqual || slices.ContainsFunc(rest, func(m *labels.Matcher) bool { return m.Type == labels.MatchEqual }) {
			continue
		}
		if slices.ContainsFunc(rest, func(m *labels.Matcher) bool { return m.Matches("") }) {
			return labels.EmptyLabels(), false
		}
		b.Set(name, last.Value)
	}
	return b.Labels(), true
}

// histogram compiles a function of classic histograms.
func (w *walker) histogram(f *plan.HistogramFunc, e *parser.Call, sc scope) plan.Node {
	h := &plan.Histogram{
		Func: f, ArgPos: w.facts[e.Args[0]].pos, InputPos: w.facts[e.Args[f.Args]].pos, Origin: w.origin(e),
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
			h.Args, h.ArgsPos = append(h.Args, c), append(h.ArgsPos, w.facts[a].pos)
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
	if w.facts[e.Args[f.Args]].histogram { // that engine adds the notes of the inner one to those of the outer
		return w.leave(e, "a histogram function over another is evaluated by Prometheus's engine")
	}
	sc.forgetNames(true)
	h.Input = w.compile(e.Args[f.Args], sc)
	return h
}

// info compiles the function info.
func (w *walker) info(e *parser.Call, sc scope) plan.Node {
	moved := false
	parser.Inspect(e.Args[0], func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			moved = moved || n.Timestamp != nil || n.OriginalOffset != 0
		case *parser.SubqueryExpr:
			moved = moved || n.Timestamp != nil || n.OriginalOffset != 0
		}
		return nil
	})
	if moved {
		return w.leave(e, "info() of something with an offset or @ may read its info series at another time than that of the step")
	}
	n := &plan.Info{Lookback: w.lookback, Unary: plan.Unary{Origin: w.origin(e)}}
	if len(e.Args) > 1 {
		for _, m := range e.Args[1].(*parser.VectorSelector).LabelMatchers {
			if m.Name == model.MetricNameLabel {
				n.Names = append(n.Names, m)
			} else {
				n.Data = append(n.Data, m)
			}
		}
	}
	// Without a name it is target_info, and with none that names some it is all that end like it.
	match := func(t labels.MatchType, name string) *labels.Matcher {
		return labels.MustNewMatcher(t, model.MetricNameLabel, name)
	}
	names := func(m *labels.Matcher) bool { return m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp }
	switch {
	case len(n.Names) == 0:
		n.Names = append(n.Names, match(labels.MatchEqual, "target_info"))
	case !slices.ContainsFunc(n.Names, names):
		n.Names = append([]*labels.Matcher{match(labels.MatchRegexp, ".+_info")}, n.Names...)
	}
	n.Input = w.compile(e.Args[0], sc)
	return n
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
	r := &plan.Relabel{Label: args[0], Unary: plan.Unary{Origin: w.origin(e)}}
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
	if w.left != nil || !w.env.DelayedNameRemoval || r.Regexp == nil || !r.Input.DropsName() || r.DropsName() {
		return r
	}
	if all := args[3] == ".*" || args[3] == "(.*)" || r.Source[0] == "" && r.Regexp.MatchString(""); !all {
		return w.leave(e, "names are to be removed later from those series only whose label does not match")
	}
	return r
}

// sort compiles a function that sorts series.
func (w *walker) sort(e *parser.Call, sc scope) plan.Node {
	names, ok := literals(e.Args[1:])
	if !ok {
		return w.leave(e, reasonNotLiteral(e))
	}
	in := plan.Unary{Input: w.compile(e.Args[0], sc), Origin: w.origin(e)}
	return &plan.Sort{Name: e.Func.Name, Labels: names, Ranged: !sc.instant, Unary: in}
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

const reasonMetadata = "Prometheus's engine may remove the type or unit that is set within a subquery"
