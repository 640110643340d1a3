package vector

import (
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// Chain is a list of nodes of one input that look at one series at a time, in
// the order in which they apply: maps, label functions, and functions that sort
// where that has no effect.
type Chain []plan.Node

// Under takes the nodes above another apart: the node below them, and them. With merging the nodes
// that merge series end the chain, since their input must be rows.
func Under(n plan.Node, merging bool) (bottom plan.Node, c Chain) {
	for {
		switch x := n.(type) {
		case *plan.Map, *plan.Relabel:
			if merging && Merges(n) {
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

// Merges reports whether series may become the same in a node that looks at one at a time.
// Prometheus's engine merges them.
func Merges(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Map:
		return !n.Filters()
	case *plan.StepMap:
		return !n.Filters()
	case *plan.Relabel:
		return true
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

// Check ends a chain over a number of series: it raises what Prometheus's engine
// raises once it has evaluated each node. left is the number of values before
// the maps and after each, and held what was held before the series were evaluated.
func (c Chain) Check(q *operator.Query, left []int, series, held int) (err error) {
	for _, n := range c {
		switch n := n.(type) {
		case *plan.Map:
			if !n.Func.InPlace {
				err = q.CheckSteps(n, n.Scalars, left[0], left[1], series)
			}
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
		label, ok := node.(*plan.Relabel)
		if !ok && (!Merges(node) || q.DelayedNameRemoval) {
			continue
		}
		if ls == nil {
			ls = labelsOf(&operator.Series{N: n, Labels: at})
			at = func(i int) labels.Labels { return ls[i] }
		}
		reason, unique := ReasonCollide, false
		if ok {
			reason = reasonRelabelled
			var err error
			if unique, err = relabel(q, label, ls); err != nil {
				return nil, err
			}
		} else {
			unique = removeNames(ls)
		}
		if !unique && !q.Merging {
			return nil, &plan.Declined{At: node, Reason: reason, Merges: true}
		}
	}
	return at, nil
}

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

// labelsOf are the labels of series.
func labelsOf(s *operator.Series) []labels.Labels {
	ls := make([]labels.Labels, s.N)
	for i := range ls {
		ls[i] = s.Labels(i)
	}
	return ls
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

const reasonRelabelled = "it makes series the same, which Prometheus's engine merges or reports"

// relabeler sets a label of series.
type relabeler struct {
	node  *plan.Relabel
	b     *labels.Builder
	parts []string
	known map[string]replacement // of label_replace, by the value of the source
	times int                    // how often the value has a source, at most
}

// replacement is what a source is replaced by, if it matches.
type replacement struct {
	value   string
	matches bool
}

// chargeEvery is after how many bytes labels are charged.
const chargeEvery = 64 << 10

// relabel sets the label of n in all of ls, which is charged to the query, and reports whether they
// still differ, as they did before.
func relabel(q *operator.Query, n *plan.Relabel, ls []labels.Labels) (unique bool, err error) {
	f := &relabeler{
		node: n, b: labels.NewBuilder(labels.EmptyLabels()),
		parts: make([]string, len(n.Source)), known: map[string]replacement{}, times: 1,
	}
	if n.Regexp != nil {
		f.times = strings.Count(n.Template, "$")
	}
	overwrites, grown := false, int64(0)
	for i, l := range ls {
		if grown += f.bytes(l); grown > chargeEvery || i == len(ls)-1 {
			q.Charge(grown)
			grown = 0
			if err := q.Done(); err != nil {
				return false, err
			}
		}
		value, ok := f.value(l)
		if !ok {
			continue
		}
		overwrites = overwrites || l.Has(f.node.Label)
		f.b.Reset(l)
		f.b.Set(f.node.Label, value)
		ls[i] = f.b.Labels()
	}
	return !overwrites || allDiffer(ls), nil
}

// bytes is the memory in bytes that the labels of a series take at most once the label is set.
func (f *relabeler) bytes(l labels.Labels) int64 {
	n := l.ByteSize() + uint64(len(f.node.Label)+len(f.node.Template))
	for _, name := range f.node.Source {
		n += uint64(f.times * (len(l.Get(name)) + len(f.node.Separator)))
	}
	return int64(n)
}

// value returns the value that the label of a series is to have, or false if it
// is left alone.
func (f *relabeler) value(l labels.Labels) (string, bool) {
	if f.node.Regexp == nil {
		for i, name := range f.node.Source {
			f.parts[i] = l.Get(name)
		}
		return strings.Join(f.parts, f.node.Separator), true
	}
	source := l.Get(f.node.Source[0])
	r, ok := f.known[source]
	if !ok {
		if at := f.node.Regexp.FindStringSubmatchIndex(source); at != nil {
			r = replacement{string(f.node.Regexp.ExpandString(nil, f.node.Template, source, at)), true}
		}
		f.known[source] = r
	}
	return r.value, r.matches
}
