package matching

import (
	"slices"

	commonmodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Index finds values of selectors that may match all that another selector matches. Values are
// in buckets by the metric name that their selectors fix, which is empty if they fix none.
//
// By ImpliesAll a matcher of a narrow selector implies the name of the wide one, so the narrow one
// has one name only, too, and the same.
type Index[T comparable] map[string]map[T]struct{}

// Add puts v, whose selector is ms, in.
func (x Index[T]) Add(v T, ms []*labels.Matcher) {
	name := FixedName(ms)
	if x[name] == nil {
		x[name] = map[T]struct{}{}
	}
	x[name][v] = struct{}{}
}

// Remove takes v, whose selector is ms, out.
func (x Index[T]) Remove(v T, ms []*labels.Matcher) {
	name := FixedName(ms)
	if delete(x[name], v); len(x[name]) == 0 {
		delete(x, name)
	}
}

// Wider returns values whose selectors may match all that ms match: all of them, or most if there
// are more, in random order.
func (x Index[T]) Wider(ms []*labels.Matcher, most int) (out []T) {
	names := []string{""}
	for _, m := range ms {
		values := []string{m.Value}
		if m.Type == labels.MatchRegexp {
			values = slices.Compact(m.SetMatches())
		}
		if m.Name == commonmodel.MetricNameLabel && len(values) == 1 && !slices.Contains(names, values[0]) {
			names = append(names, values[0])
		}
	}
	for _, name := range names {
		for v := range x[name] {
			if len(out) == most {
				return out
			}
			out = append(out, v)
		}
	}
	return out
}
