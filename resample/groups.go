package resample

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// groups are the groups of a selection's series, in the order of their labels.
type groups struct {
	labels []labels.Labels
	// The series of group g are members[first[g]:first[g+1]], in order.
	members []int32
	first   []int32
	groupOf []int32        // of each series
	text    int64          // bytes of the labels, unless they are the series' own
	clash   *labels.Labels // the first that have a label of the answer's
}

// groupBytes is the memory that grouping takes for a series.
const groupBytes = 64

// SizeBytes implements selection.Sized.
func (g *groups) SizeBytes() int64 {
	return 8*int64(len(g.groupOf)) + groupBytes*int64(len(g.labels)) + g.text
}

// groupsKey is what groups depend on besides the series: a grouping, or none.
type groupsKey string

func (g *Grouping) key() groupsKey {
	if g == nil {
		return ""
	}
	return groupsKey(fmt.Sprintf("%t %q", g.Without, g.Labels))
}

// groupSeries finds the groups, and notes them with the series.
func (r *run) groupSeries() (*groups, error) {
	series := r.sel.Series()
	if err := r.budget.Charge(groupBytes * int64(len(series))); err != nil {
		return nil, err
	}
	g, err := selection.NoteOrError(r.sel.Notes.Series, r.Grouping.key(), func() (*groups, error) {
		watch := &parallel.Watch{Ctx: r.ctx}
		defer watch.Leave()
		g := r.Grouping.groups(watch, series)
		if watch.Now() != nil {
			return nil, plan.Ended(r.ctx)
		}
		return g, r.budget.Charge(g.text)
	})
	if err != nil {
		return nil, err
	}
	if ls := g.clash; ls != nil {
		return nil, &Error{CodeLabelClash, "", fmt.Sprintf("series %.200s has a label %q, which the answer has of its own", ls.String(), LabelAggregate), "leave it out with without=" + LabelAggregate}
	}
	return g, nil
}

// groups are those of series. Without a grouping each series is one. Once the watch has ended they
// are of no use.
func (g *Grouping) groups(watch *parallel.Watch, series []labels.Labels) *groups {
	all := &groups{labels: series, members: make([]int32, len(series))}
	if g == nil {
		all.groupOf = make([]int32, len(series))
		for i := range all.groupOf {
			all.groupOf[i] = int32(i)
		}
	} else {
		g.sorted(watch, series, all)
	}
	clash := slices.IndexFunc(all.labels, func(ls labels.Labels) bool { return watch.Err() != nil || ls.Has(LabelAggregate) })
	if watch.Now() != nil {
		return nil
	}
	if clash >= 0 {
		all.clash = &all.labels[clash]
	}
	all.first = make([]int32, len(all.labels)+1)
	for _, k := range all.groupOf {
		all.first[k+1]++
	}
	for k := range all.labels {
		all.first[k+1] += all.first[k]
	}
	next := slices.Clone(all.first)
	for i, k := range all.groupOf {
		all.members[next[k]] = int32(i)
		next[k]++
	}
	return all
}

// sorted finds the labels of the groups of series, in order, and the group of each series.
func (g *Grouping) sorted(watch *parallel.Watch, series []labels.Labels, into *groups) {
	found := operator.Group(watch.Ctx, &plan.Aggregate{Without: g.Without, Grouping: g.Labels}, len(series), func(i int) labels.Labels { return series[i] })
	order := make([]int32, len(found.Labels))
	for k := range order {
		order[k] = int32(k)
	}
	slices.SortFunc(order, parallel.Comparing(watch, func(a, b int32) int { return labels.Compare(found.Labels[a], found.Labels[b]) }))
	all, place := make([]labels.Labels, len(order)), make([]int32, len(order))
	for at, k := range order {
		all[at], place[k] = found.Labels[k], int32(at)
	}
	for i, k := range found.Of {
		found.Of[i] = place[k]
	}
	into.labels, into.groupOf, into.text = all, found.Of, found.SizeBytes()-4*int64(len(series))
}
