package vector

import (
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/plan"
)

const reasonRelabelled = "it makes series the same, which Prometheus's engine merges or reports"

// relabeler sets a label of series.
type relabeler struct {
	node  *plan.Relabel
	b     *labels.Builder
	parts []string
	known map[string]replacement // of label_replace, by the value of the source
}

// replacement is what a source is replaced by, if it matches.
type replacement struct {
	value   string
	matches bool
}

func newRelabeler(n *plan.Relabel) *relabeler {
	return &relabeler{
		node: n, b: labels.NewBuilder(labels.EmptyLabels()),
		parts: make([]string, len(n.Source)), known: map[string]replacement{},
	}
}

// all sets the label in all of ls and reports whether they still differ, as they
// did before.
func (f *relabeler) all(ls []labels.Labels) bool {
	overwrites := false
	for i, l := range ls {
		value, ok := f.value(l)
		if !ok {
			continue
		}
		overwrites = overwrites || l.Has(f.node.Label)
		f.b.Reset(l)
		f.b.Set(f.node.Label, value)
		ls[i] = f.b.Labels()
	}
	return !overwrites || allDiffer(ls)
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
