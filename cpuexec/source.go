package cpuexec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// source is the input of a window: its series, and how their labels look after
// the window function.
type source struct {
	sel    *selection.Selection
	labels []labels.Labels
	// mayCollide says that two series may have the same labels once the
	// function has dropped their names.
	mayCollide bool
	drops      bool
	// relabelled are the labels after the first label function above the window
	// and what is above that; nil where there is none.
	relabelled func(int) labels.Labels
	oneName    bool // all series have the same name, and neither type nor unit
}

// resultLabels are those of a series after the chain above the window.
func (s *source) resultLabels(i int) labels.Labels {
	if s.relabelled != nil {
		return s.relabelled(i)
	}
	return s.plain(i)
}

// plain are the labels of a series below all label functions.
func (s *source) plain(i int) labels.Labels {
	if s.drops {
		return vector.DropNames(s.labels[i])
	}
	return s.labels[i]
}

// fetch gets the samples of w, once. What Prometheus says of them is said here.
func (r *evaluation) fetch(w *plan.Window) (*selection.Selection, error) {
	if r.fetched.window == w {
		return r.fetched.sel, nil
	}
	start := time.Now()
	sel, ws, err := r.job.Select(r.Context, w, r.job.Grid)
	r.Matrix.Work.FetchMicros += time.Since(start).Microseconds()
	r.Matrix.Annotations.Merge(ws)
	if d := r.Done(); d != nil {
		return nil, d
	}
	switch {
	case err == nil:
	case w.Func == window.InfoTime:
		return nil, err
	default:
		return nil, fmt.Errorf("expanding series: %w", err)
	}
	r.fetched = fetched{w, sel}
	return sel, nil
}

// fetched is what a window reads.
type fetched struct {
	window *plan.Window
	sel    *selection.Selection
}

// fetchSource gets the samples of w, above which there is a chain.
func (r *evaluation) fetchSource(w *plan.Window, above vector.Chain) (*source, error) {
	sel, err := r.fetch(w)
	if err != nil {
		return nil, err
	}
	if reason := Refuses(w, r.job.Grid, sel); reason != "" {
		return nil, &plan.Declined{At: w.Scan, Reason: reason}
	}
	values, relabels := above.Split()
	s := &source{sel: sel, drops: (w.DropsName() || slices.ContainsFunc(values, vector.Merges)) && !r.job.DelayedNameRemoval}
	s.labels = sel.Series()
	s.oneName = s.drops && selection.Note(sel.Notes.Series, oneNameKey{}, func() bool { return !namesDiffer(s.labels) })
	if s.drops && !s.oneName {
		if w.Func.KeepsName || w.Func.Instant {
			// Where maps or timestamp drop the names, Prometheus's engine merges series or
			// fails, step by step.
			for _, n := range values {
				if vector.Merges(n) && !w.DropsName() {
					return nil, &plan.Declined{At: n, Reason: vector.ReasonCollide, Merges: true}
				}
			}
			return nil, &plan.Declined{At: w.Scan, Reason: vector.ReasonCollide}
		}
		s.mayCollide = true
	}
	if len(relabels) > 0 {
		s.relabelled, err = vector.LabelsAfter(r.Query, len(s.labels), s.plain, relabels)
	}
	return s, err
}

// oneNameKey is the key of the note on a selection that its series have all the same
// name.
type oneNameKey struct{}

// groupsKey is the key of the note on the groups of a selection's series.
type groupsKey struct {
	by             string
	without, drops bool
}

// groups are those of an aggregation over the series, which are of no use once ctx has ended.
func (s *source) groups(ctx context.Context, a *plan.Aggregate) operator.Groups {
	if s.relabelled != nil {
		return operator.Group(ctx, a, len(s.labels), s.relabelled)
	}
	of := func(i int) labels.Labels { return s.labels[i] }
	drops := s.drops && (a.Without || slices.ContainsFunc(a.Grouping, schema.IsMetadataLabel))
	if drops {
		of = s.plain
	}
	key := groupsKey{strings.Join(a.Grouping, "\xff"), a.Without, drops}
	g, _ := selection.NoteOrError(s.sel.Notes.Series, key, func() (operator.Groups, error) {
		return operator.Group(ctx, a, len(s.labels), of), ctx.Err()
	})
	return g
}

// namesDiffer reports whether the series differ in labels that a range function
// drops.
func namesDiffer(ls []labels.Labels) bool {
	first := ""
	for i, l := range ls {
		name := l.Get(model.MetricNameLabel)
		if i == 0 {
			first = name
		}
		if name != first || l.Has(model.MetricTypeLabel) || l.Has(model.MetricUnitLabel) {
			return true
		}
	}
	return false
}

// check raises what Prometheus's engine raises once it has evaluated a range function over all
// series, of which with oneName all have the same name, and with mayCollide some may be the same
// without their names.
func (e *windowing) check(oneName, mayCollide bool) error {
	if e.call.Func.Counter {
		var ls []labels.Labels
		for i, l := range e.series {
			if e.hasPoints[i] {
				ls = append(ls, l)
				if oneName {
					break // the others' are noted with it
				}
			}
		}
		e.r.Matrix.Annotations.Merge(e.r.nonCounters(e.argPos, ls))
	}
	if !mayCollide {
		return nil
	}
	seen := vector.Distinct{}
	for i, l := range e.series {
		if e.hasPoints[i] && !seen.Add(vector.DropNames(l)) {
			return vector.ErrSameLabels
		}
	}
	return nil
}

// nonCounters are the notes on metrics that a function for counters has a value for
// and that do not look like counters. pos is the position of its argument.
func (r *evaluation) nonCounters(pos posrange.PositionRange, ls []labels.Labels) (notes annotations.Annotations) {
	last := ""
	for _, l := range ls {
		name := l.Get(model.MetricNameLabel)
		if name == "" {
			continue
		}
		if r.job.TypeAndUnitLabels {
			if t := l.Get(model.MetricTypeLabel); t != string(model.MetricTypeCounter) && t != string(model.MetricTypeHistogram) {
				notes.Add(annotations.NewPossibleNonCounterLabelInfo(name, t, pos))
			}
			continue
		}
		likeCounter := func(ending string) bool { return strings.HasSuffix(name, ending) }
		if name != last && !slices.ContainsFunc([]string{"_total", "_sum", "_count", "_bucket"}, likeCounter) {
			notes.Add(annotations.NewPossibleNonCounterInfo(name, pos))
		}
		last = name
	}
	return notes
}

// ReasonHistograms is why selectors of native histograms are refused.
const ReasonHistograms = "it selects native histograms, which are not on an executor yet"

// Refuses says why the samples that window w reads of a selection, when it is evaluated on
// g, are none that an executor can evaluate, or nothing if they are. It decodes none: the
// chunks' encodings say so. A kept selection may have floats at one time and histograms at
// another.
func Refuses(w *plan.Window, g plan.Grid, sel *selection.Selection) string {
	if sel.OnlyFloats() {
		return ""
	}
	mint, maxt := w.Reads(g)
	for i := range sel.NumSeries() {
		for _, c := range sel.Overlapping(i, mint, maxt) {
			if c.Enc != chunkenc.EncXOR && c.Enc != chunkenc.EncXOR2 {
				return ReasonHistograms
			}
		}
	}
	return ""
}

// countSteps adds samples of each step to the statistics of the query.
func (r *evaluation) countSteps(all, fresh []int64) {
	for k := range all {
		r.Matrix.SamplesAtStep[k] += all[k]
		r.Matrix.NewSamplesAtStep[k] += fresh[k]
	}
}
