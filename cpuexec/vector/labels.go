package vector

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/schema"
)

// ReasonCollide is why series that become the same when names are dropped are declined.
const ReasonCollide = "it selects several metrics whose series become the same when their names are dropped"

// DropNames removes what a range function drops: metric name, type and unit.
func DropNames(l labels.Labels) labels.Labels { return l.DropReserved(schema.IsMetadataLabel) }

// removeNames drops the names from labels and reports whether they still differ.
func removeNames(ls []labels.Labels) bool {
	changed := false
	for i, l := range ls {
		ls[i] = DropNames(l)
		changed = changed || ls[i].Len() < l.Len()
	}
	return !changed || allDiffer(ls)
}

// withoutNames drops the names from n series and reports whether their labels
// still differ.
func withoutNames(n int, at func(int) labels.Labels) ([]labels.Labels, bool) {
	ls := make([]labels.Labels, n)
	for i := range ls {
		ls[i] = at(i)
	}
	return ls, removeNames(ls)
}

// ErrSameLabels is Prometheus's error of series that become the same.
var ErrSameLabels = errors.New("vector cannot contain metrics with the same labelset")

// Distinct are labels, no two of which are the same.
type Distinct map[uint64]struct{}

// Add adds labels and reports whether they differ from all that are there.
func (d Distinct) Add(l labels.Labels) bool {
	before := len(d)
	d[l.Hash()] = struct{}{}
	return len(d) > before
}

// allDiffer reports whether no two of the labels are the same.
func allDiffer(ls []labels.Labels) bool {
	seen := make(Distinct, len(ls))
	for _, l := range ls {
		if !seen.Add(l) {
			return false
		}
	}
	return true
}
