package vector

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// Chain is a list of nodes of one input that look at one series at a time, in
// the order in which they apply: maps, label functions, and functions that sort
// where that has no effect.
type Chain []plan.Node

// Under takes the nodes above another apart: the node below them, and them.
func Under(n plan.Node) (bottom plan.Node, c Chain) {
	for {
		switch x := n.(type) {
		case *plan.Map, *plan.Relabel:
			if merges(n) {
				slices.Reverse(c)
				return n, c
			}
		case *plan.Sort:
			if !x.Ranged {
				slices.Reverse(c)
				return n, c
			}
		default:
			slices.Reverse(c)
			return n, c
		}
		c = append(c, n)
		n = n.Inputs()[0]
	}
}

// merges reports whether a node merges series that become the same, for which its
// input must be rows.
func merges(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Map:
		return n.Merges
	case *plan.Relabel:
		return n.Merges
	case *plan.StepMap:
		return n.Merges
	}
	return false
}

// Mappers are the maps of the chain.
func (c Chain) Mappers() (ms []operator.Mapper) {
	for _, n := range c {
		if m, ok := n.(*plan.Map); ok {
			ms = append(ms, newMapper(m))
		}
	}
	return ms
}

// Split is the chain up to the first label function, and the rest.
func (c Chain) Split() (values, rest Chain) {
	for i, n := range c {
		if _, ok := n.(*plan.Relabel); ok {
			return c[:i], c[i:]
		}
	}
	return c, nil
}

// RelabelsOnly reports whether the chain leaves values alone.
func (c Chain) RelabelsOnly() bool {
	return !slices.ContainsFunc(c, func(n plan.Node) bool { _, ok := n.(*plan.Relabel); return !ok })
}

// RemovesNames reports whether the chain has maps that remove names.
func (c Chain) RemovesNames() bool {
	return slices.ContainsFunc(c, RemovesNames)
}

// RemovesNames reports whether a node of a chain removes names, now or when the
// query ends. A comparison that filters does not.
func RemovesNames(n plan.Node) bool {
	m, ok := n.(*plan.Map)
	return ok && !m.Filters()
}

// Check ends a chain over so many series: it raises what Prometheus's engine
// raises once it has evaluated each node. left is the number of values before
// the maps and after each, and held what was held before the series were evaluated.
func (c Chain) Check(q *operator.Query, left []int, series, held int) (err error) {
	for _, n := range c {
		switch n := n.(type) {
		case *plan.Map:
			err = checkMapped(q, n, left[0], left[1], series)
			left = left[1:]
		case *plan.Sort:
			err = checkSorted(q, n, left[0], series)
		}
		if err != nil {
			return err
		}
		if Releases(n) {
			q.Held = held
		}
	}
	return nil
}

// Releases reports whether Prometheus's engine, when it has evaluated n, counts as held no
// more than it did before and the result. The function info goes on to count its input and
// the info series, until something above it does so.
func Releases(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Window, *plan.Relabel, *plan.Subwindow, *plan.Info:
		return false
	case *plan.Map:
		return !n.Func.InPlace
	}
	return true
}

// checkSorted raises what Prometheus's engine raises of a function that sorts.
func checkSorted(q *operator.Query, n *plan.Sort, points, series int) error {
	if n.Ranged {
		q.Note(annotations.NewSortInRangeQueryWarning(n.Pos))
	}
	return q.CheckSteps(n, 0, points, points, series)
}

// LabelsAfter gives the labels of n series after the nodes of a chain, before
// which they differ. It declines where they may become the same, unless the node
// merges them: Prometheus's engine merges such series or fails, step by step.
func LabelsAfter(q *operator.Query, n int, at func(int) labels.Labels, c Chain) (func(int) labels.Labels, error) {
	var ls []labels.Labels
	for _, node := range c {
		relabel, ok := node.(*plan.Relabel)
		if !ok && (!RemovesNames(node) || q.DelayedNameRemoval) {
			continue
		}
		if ls == nil {
			ls = make([]labels.Labels, n)
			for i := range ls {
				ls[i] = at(i)
			}
			at = func(i int) labels.Labels { return ls[i] }
		}
		reason, unique := ReasonCollide, false
		if ok {
			reason, unique = reasonRelabelled, newRelabeler(relabel).all(ls)
		} else {
			unique = removeNames(ls)
		}
		if !unique && !merges(node) {
			return nil, &plan.Declined{At: node, Reason: reason, Merges: true}
		}
	}
	return at, nil
}
