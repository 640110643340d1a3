package reduce

import (
	"cmp"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
)

// arrange puts groups into the order in which the reader has them: that of the first series of
// each that has a value at some step. It reports false where that depends on what the reader
// does not say: inside of a subquery the first step is none.
func (t *thinner) arrange(groups promql.Matrix) (bool, error) {
	if len(groups) < 2 {
		return true, nil
	}
	rank := make(map[string]int, len(groups))
	h := t.q.Hints
	b := labels.NewBuilder(labels.EmptyLabels())
	var w worker
	w.marker = marker{asked: t.asked, function: latest}
	for i, l := range t.sel.Series() {
		b.Reset(l)
		if h.By {
			b.Keep(h.Grouping...)
		} else {
			b.Del(h.Grouping...)
			b.Del(model.MetricNameLabel)
		}
		key := b.Labels().String()
		if _, known := rank[key]; known {
			continue
		}
		seen, certain, err := t.visible(&w, i)
		if err != nil || !certain {
			return false, err
		}
		if seen {
			if rank[key] = i; len(rank) == len(groups) {
				break
			}
		}
	}
	slices.SortFunc(groups, func(a, b promql.Series) int {
		return cmp.Compare(rank[a.Metric.String()], rank[b.Metric.String()])
	})
	return true, nil
}

// visible reports whether series i has a value at some step, and whether that is so for a
// reader without the first step, too.
func (t *thinner) visible(w *worker, i int) (seen, certain bool, err error) {
	later := t.asked
	if t.steps() > 1 {
		later.first += t.step
	}
	chunks := t.sel.Overlapping(i, t.q.MinT, t.q.MaxT)
	for n := 1; ; n *= 8 { // until the end of some of the chunks, which mostly is enough
		part := *t
		part.asked = later
		if n < len(chunks) {
			part.q.MaxT = chunks[n-1].MaxT
			part.last = min(t.last, later.after(part.q.MaxT+1)-t.step)
		}
		if seen, err := part.anyValue(w, i); seen || err != nil || n >= len(chunks) && later == t.asked {
			return seen, true, err
		}
		if n >= len(chunks) {
			break
		}
	}
	seen, err = t.anyValue(w, i)
	return seen, !seen, err
}

// anyValue reports whether series i has a value at some step.
func (t *thinner) anyValue(w *worker, i int) (bool, error) {
	w.asked, w.values = t.asked, w.values[:0]
	_, err := t.series(w, i, nil) // which leaves what it keeps in w
	return slices.ContainsFunc(w.values, func(v float64) bool { return !value.IsStaleNaN(v) }), err
}
