package vector

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

const reasonAmbiguous = "series match several others at one step, or become the same, which Prometheus's engine reports"

// signatures number the values of the labels that series match by.
type signatures struct {
	of [2][]int32 // of each series of the left and the right side
	n  int
}

func sign(m *parser.VectorMatching, sides ...[]plan.Row) signatures {
	names := slices.Clone(m.MatchingLabels)
	if !m.On {
		names = append(names, model.MetricNameLabel)
	}
	slices.Sort(names)
	var s signatures
	index := map[string]int32{}
	buf := make([]byte, 0, 1024)
	for k, rows := range sides {
		s.of[k] = make([]int32, len(rows))
		for i := range rows {
			if m.On {
				buf = rows[i].Labels.BytesWithLabels(buf, names...)
			} else {
				buf = rows[i].Labels.BytesWithoutLabels(buf, names...)
			}
			ord, ok := index[string(buf)]
			if !ok {
				ord = int32(len(index))
				index[string(buf)] = ord
			}
			s.of[k][i] = ord
		}
	}
	s.n = len(index)
	return s
}

// pair is a series of each side that match at some step. The one side has at
// most one series of a signature at a step, the many side may have several.
type pair struct {
	many, one int32
	next      int32 // the next pair of the same result series, or -1
}

// matched is the result of an operator on the pairs of two sides. Series match
// once; only which are present changes from step to step.
type matched struct {
	many, one []plan.Row
	swapped   bool // the many side is the right one
	apply     func(out dense.Row, first int, lhs, rhs []float64)
	pairs     []pair
	results   []result
}

// result is a series of the result and the list of pairs that it comes from, at
// different steps.
type result struct {
	labels      labels.Labels
	first, last int32
}

// match pairs the series of two sides. It declines where Prometheus's engine
// would report that several match.
func match(q *operator.Query, n *plan.Binary, lhs, rhs []plan.Row) (*matched, error) {
	m := &matched{many: lhs, one: rhs, apply: kernel(n.Func, n.Bool)}
	sigs := sign(n.Matching, lhs, rhs)
	manySigs, oneSigs := sigs.of[0], sigs.of[1]
	if n.Matching.Card == parser.CardOneToMany {
		m.many, m.one, m.swapped = rhs, lhs, true
		manySigs, oneSigs = oneSigs, manySigs
	}
	ambiguous := &plan.Declined{At: n, Reason: reasonAmbiguous}
	bySig, ok := m.oneBySignature(oneSigs, sigs.n)
	if !ok {
		return nil, ambiguous
	}
	namer := newNamer(n, q.DelayedNameRemoval)
	byLabels := map[uint64]int32{}
	byOne := make([][]int32, len(m.one)) // its pairs, of one-to-one matching
	m.pairs = make([]pair, 0, len(m.many))
	for i := range m.many {
		for j := bySig.first[manySigs[i]]; j >= 0; j = bySig.next[j] {
			if !meet(m.many[i].Runs, m.one[j].Runs) {
				continue
			}
			k := m.add(pair{many: int32(i), one: j, next: -1}, namer, byLabels)
			if n.Matching.Card == parser.CardOneToOne {
				for _, p := range byOne[j] {
					if m.clash(m.pairs[p], m.pairs[k]) {
						return nil, ambiguous
					}
				}
				byOne[j] = append(byOne[j], k)
			}
		}
	}
	if n.Matching.Card != parser.CardOneToOne && m.repeats() {
		return nil, ambiguous
	}
	return m, nil
}

// add notes a pair and the result that it belongs to, and returns its index.
func (m *matched) add(p pair, namer *namer, byLabels map[uint64]int32) int32 {
	k := int32(len(m.pairs))
	m.pairs = append(m.pairs, p)
	l := namer.result(m.many[p.many].Labels, m.one[p.one].Labels)
	h := l.Hash()
	res, ok := byLabels[h]
	if !ok {
		byLabels[h] = int32(len(m.results))
		m.results = append(m.results, result{labels: l, first: k, last: k})
		return k
	}
	m.pairs[m.results[res].last].next = k
	m.results[res].last = k
	return k
}

// lists are numbers in lists, linked by their own values.
type lists struct{ first, next []int32 }

// oneBySignature lists the series of the one side by signature. It returns
// false if two of a signature are present at a step at which the other side has
// any series.
func (m *matched) oneBySignature(sigs []int32, n int) (lists, bool) {
	l := lists{first: make([]int32, n), next: make([]int32, len(sigs))}
	for k := range l.first {
		l.first[k] = -1
	}
	var anyMany []plan.Run
	for j := len(sigs) - 1; j >= 0; j-- {
		for k := l.first[sigs[j]]; k >= 0; k = l.next[k] {
			if !meet(m.one[j].Runs, m.one[k].Runs) {
				continue
			}
			if anyMany == nil {
				anyMany = union(m.many)
			}
			if meet(m.one[j].Runs, m.one[k].Runs, anyMany) {
				return l, false
			}
		}
		l.next[j] = l.first[sigs[j]]
		l.first[sigs[j]] = int32(j)
	}
	return l, true
}

// clash reports whether two pairs with the same series of the one side exist at
// the same step.
func (m *matched) clash(a, b pair) bool {
	return a.many != b.many && meet(m.one[a.one].Runs, m.many[a.many].Runs, m.many[b.many].Runs)
}

// repeats reports whether several series of the many side become the same
// series of the result, with the same series of the one side, at one step.
func (m *matched) repeats() bool {
	for _, res := range m.results {
		for a := res.first; a >= 0; a = m.pairs[a].next {
			for b := m.pairs[a].next; b >= 0; b = m.pairs[b].next {
				if m.pairs[a].one == m.pairs[b].one && m.clash(m.pairs[a], m.pairs[b]) {
					return true
				}
			}
		}
	}
	return false
}

func (m *matched) Size() int { return len(m.results) }

func (m *matched) Labels(i int) labels.Labels { return m.results[i].labels }

func (m *matched) fill(i int, out dense.Row) bool {
	res := &m.results[i]
	for k := res.first; k >= 0; k = m.pairs[k].next {
		p := &m.pairs[k]
		many, one := &m.many[p.many], &m.one[p.one]
		for o := (overlap{a: many.Runs, b: one.Runs}); o.next(); {
			if res.first != res.last && out.Has(o.first, o.n) {
				return false
			}
			l, r := many.Values[o.atA:o.atA+o.n], one.Values[o.atB:o.atB+o.n]
			if m.swapped {
				l, r = r, l
			}
			m.apply(out, o.first, l, r)
		}
	}
	return true
}

// namer makes the labels of results.
type namer struct {
	m     *parser.VectorMatching
	drops bool // names
	b     *labels.Builder
}

func newNamer(n *plan.Binary, delayed bool) *namer {
	return &namer{
		m: n.Matching, drops: !n.Func.Compares || (n.Bool && !delayed),
		b: labels.NewBuilder(labels.EmptyLabels()),
	}
}

// result is the labels of a series of the many side combined with one of the
// one side.
func (n *namer) result(many, one labels.Labels) labels.Labels {
	n.b.Reset(many)
	if n.drops {
		schema.Metadata{}.SetToLabels(n.b)
	}
	if n.m.Card == parser.CardOneToOne {
		if n.m.On {
			n.b.Keep(n.m.MatchingLabels...)
		} else {
			n.b.Del(n.m.MatchingLabels...)
		}
	}
	for _, name := range n.m.Include {
		n.b.Set(name, one.Get(name)) // an empty value deletes the label
	}
	return n.b.Labels()
}
