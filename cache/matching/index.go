package matching

import (
	"slices"

	commonmodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Index finds values of selectors that may match all that another selector matches, without
// a look at every value. Each value is in one bucket, that of an anchor of its selector.
//
// By ImpliesAll a matcher of a narrow selector implies the anchor of the wide one. Both are
// matchers of one label, and if the anchor has one value, the narrow matcher has that value,
// too. So Wider need only look into the buckets of the labels and values of the narrow one.
type Index[T comparable] map[anchor]map[T]struct{}

// anchor is the metric name of a selector, empty if it fixes none, and one other matcher: its
// label, and its value if it matches one value only. Without other matchers label is empty.
type anchor struct {
	name, label, value string
	fixed              bool // whether value counts
}

// anchorOf is the anchor of a matcher of a selector of a metric name.
func anchorOf(name string, m *labels.Matcher) anchor {
	if m.Type == labels.MatchEqual {
		return anchor{name, m.Name, m.Value, true}
	}
	if values := slices.Compact(m.SetMatches()); m.Type == labels.MatchRegexp && len(values) == 1 {
		return anchor{name, m.Name, values[0], true}
	}
	return anchor{name: name, label: m.Name}
}

// anchors are those of ms as a wide selector; at least one.
func anchors(ms []*labels.Matcher) (out []anchor) {
	name := FixedName(ms)
	for _, m := range ms {
		if a := anchorOf(name, m); a != (anchor{name, commonmodel.MetricNameLabel, name, true}) {
			out = append(out, a)
		}
	}
	if out == nil {
		out = []anchor{{name: name}}
	}
	return out
}

// Add puts v, whose selector is ms, into the smallest of the buckets that may have it.
func (x Index[T]) Add(v T, ms []*labels.Matcher) {
	a := slices.MinFunc(anchors(ms), func(a, b anchor) int { return len(x[a]) - len(x[b]) })
	if x[a] == nil {
		x[a] = map[T]struct{}{}
	}
	x[a][v] = struct{}{}
}

// Remove takes v, whose selector is ms, out.
func (x Index[T]) Remove(v T, ms []*labels.Matcher) {
	for _, a := range anchors(ms) {
		if delete(x[a], v); len(x[a]) == 0 {
			delete(x, a)
		}
	}
}

// Wider returns values whose selectors may match all that ms match: all of them, or most if there
// are more. Values of small buckets come first, those of one bucket in random order.
func (x Index[T]) Wider(ms []*labels.Matcher, most int) (out []T) {
	names := []string{""}
	for _, m := range ms {
		if a := anchorOf("", m); a.fixed && a.value != "" && a.label == commonmodel.MetricNameLabel {
			names = append(names, a.value)
		}
	}
	var buckets []map[T]struct{}
	for _, name := range names {
		buckets = append(buckets, x[anchor{name: name}])
		for _, m := range ms {
			buckets = append(buckets, x[anchor{name: name, label: m.Name}])
			if a := anchorOf(name, m); a.fixed {
				buckets = append(buckets, x[a])
			}
		}
	}
	slices.SortFunc(buckets, func(a, b map[T]struct{}) int { return len(a) - len(b) })
	for _, b := range buckets {
		for v := range b {
			if len(out) == most {
				return out
			}
			out = append(out, v)
		}
	}
	return out
}
