package cpuexec

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/schema"
)

// reasonCollide is why series that become the same when names are dropped are declined.
const reasonCollide = "it selects several metrics whose series become the same when their names are dropped"

// dropNames removes what a range function drops: metric name, type and unit.
func dropNames(l labels.Labels) labels.Labels { return l.DropReserved(schema.IsMetadataLabel) }

// removeNames drops the names from labels and reports whether they still differ.
func removeNames(ls []labels.Labels) bool {
	changed := false
	for i, l := range ls {
		ls[i] = dropNames(l)
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

// errSameLabels is Prometheus's error.
var errSameLabels = errors.New("vector cannot contain metrics with the same labelset")

// distinct are labels, no two of which are the same.
type distinct map[uint64]struct{}

// add adds labels and reports whether they differ from all that are there.
func (d distinct) add(l labels.Labels) bool {
	before := len(d)
	d[l.Hash()] = struct{}{}
	return len(d) > before
}

// allDiffer reports whether no two of the labels are the same.
func allDiffer(ls []labels.Labels) bool {
	seen := make(distinct, len(ls))
	for _, l := range ls {
		if !seen.add(l) {
			return false
		}
	}
	return true
}
