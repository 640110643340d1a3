package resample

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// groups are the groups of a selection's series, in the order of their labels.
type groups struct {
	labels []labels.Labels
	// The series of group g are members[first[g]:first[g+1]], in order.
	members []int32
	first   []int32
}

// of is the series of group g.
func (g *groups) of(k int) []int32 { return g.members[g.first[k]:g.first[k+1]] }

// groupBytes is the memory that grouping takes for a series.
const groupBytes = 64

// groupSeries finds the groups. Without a grouping each series is one.
func (r *run) groupSeries() (*groups, error) {
	series := r.sel.Series()
	if err := r.budget.Charge(groupBytes * int64(len(series))); err != nil {
		return nil, err
	}
	g := &groups{members: make([]int32, len(series)), first: []int32{0}}
	of := make([]int32, len(series))
	if r.Grouping == nil {
		g.labels = series
	} else {
		g.labels = r.Grouping.distinct(series, of)
	}
	for _, ls := range g.labels {
		if ls.Has(LabelAggregate) {
			return nil, &Error{CodeLabelClash, "", fmt.Sprintf("series %.200s has a label %q, which the answer has of its own", ls.String(), LabelAggregate), "leave it out with without=" + LabelAggregate}
		}
	}
	for i := range g.members {
		g.members[i] = int32(i)
		if r.Grouping == nil {
			of[i] = int32(i)
		}
	}
	slices.SortStableFunc(g.members, func(a, b int32) int { return int(of[a]) - int(of[b]) })
	for at := range g.members {
		if at > 0 && of[g.members[at]] != of[g.members[at-1]] {
			g.first = append(g.first, int32(at))
		}
	}
	if len(g.members) > 0 {
		g.first = append(g.first, int32(len(g.members)))
	}
	return g, nil
}

// distinct returns the labels of the groups of series, in order, and puts the group of each series
// into of.
func (g *Grouping) distinct(series []labels.Labels, of []int32) []labels.Labels {
	b := labels.NewBuilder(labels.EmptyLabels())
	var all []labels.Labels
	var key []byte
	index := map[string]int32{}
	for i, ls := range series {
		b.Reset(ls)
		if g.Without {
			b.Del(g.Labels...)
			b.Del(model.MetricNameLabel)
		} else {
			b.Keep(g.Labels...)
		}
		group := b.Labels()
		key = group.Bytes(key)
		k, ok := index[string(key)]
		if !ok {
			k = int32(len(all))
			index[string(key)] = k
			all = append(all, group)
		}
		of[i] = k
	}
	order := make([]int32, len(all))
	for k := range order {
		order[k] = int32(k)
	}
	slices.SortFunc(order, func(a, b int32) int { return labels.Compare(all[a], all[b]) })
	sorted, place := make([]labels.Labels, len(all)), make([]int32, len(all))
	for at, k := range order {
		sorted[at], place[k] = all[k], int32(at)
	}
	for i := range of {
		of[i] = place[of[i]]
	}
	return sorted
}
