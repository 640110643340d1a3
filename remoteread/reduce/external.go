package reduce

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// labelled reports whether one of series has an external label of its own.
func labelled(series []labels.Labels, external labels.Labels) (found bool) {
	external.Range(func(e labels.Label) {
		found = found || slices.ContainsFunc(series, func(l labels.Labels) bool { return l.Has(e.Name) })
	})
	return found
}

// become returns what series are with external labels.
func become(series []labels.Labels, external labels.Labels) []labels.Labels {
	out := make([]labels.Labels, len(series))
	b := labels.NewBuilder(labels.EmptyLabels())
	for i, l := range series {
		b.Reset(l)
		external.Range(func(e labels.Label) {
			if !l.Has(e.Name) {
				b.Set(e.Name, e.Value)
			}
		})
		out[i] = b.Labels()
	}
	return out
}

// joined reports whether two of series, which differ, become one with external labels.
func joined(series []labels.Labels, external labels.Labels) bool {
	if !labelled(series, external) {
		return false
	}
	all := become(series, external)
	slices.SortFunc(all, labels.Compare)
	return len(slices.CompactFunc(all, labels.Equal)) < len(series)
}

// apart reports whether external labels leave series what they are: none has one of its own,
// and, for sums, whose bits depend on it, they are in the same order with them.
func apart(series []labels.Labels, external labels.Labels, op parser.ItemType) bool {
	switch {
	case labelled(series, external):
		return false
	case external.IsEmpty() || op != parser.SUM && op != parser.AVG:
		return true
	}
	return slices.IsSortedFunc(become(series, external), labels.Compare)
}
