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

// seriesOf are the series of rows.
func seriesOf(rows []plan.Row) *operator.Series {
	return &operator.Series{N: len(rows), Labels: func(i int) labels.Labels { return rows[i].Labels }}
}

func sign(m *parser.VectorMatching, sides ...*operator.Series) signatures {
	names := slices.Clone(m.MatchingLabels)
	if !m.On {
		names = append(names, model.MetricNameLabel)
	}
	slices.Sort(names)
	var s signatures
	index := map[string]int32{}
	buf := make([]byte, 0, 1024)
	for k, side := range sides {
		s.of[k] = make([]int32, side.N)
		for i := range s.of[k] {
			if m.On {
				buf = side.Labels(i).BytesWithLabels(buf, names...)
			} else {
				buf = side.Labels(i).BytesWithoutLabels(buf, names...)
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

// matched is the result of an operator on the pairs of two sides. Series match once; at which
// steps a pair exists is a bitmap.
type matched struct {
	many, one []plan.Row
	swapped   bool // the many side is the right one
	apply     func(out dense.Row, first int, lhs, rhs []float64)
	steps     int
	pairs     []pair
	results   []result
	// What is filled in on either side, a value a step; nil if nothing is.
	fillMany, fillOne []float64
}

// pair is a series of each side that match at the steps of a bitmap. The one side has at most
// one series of a signature at a step, the many side may have several.
type pair struct {
	many, one int32 // -1 for a series that is filled in
	sig       int32
	at        []uint64
	next      int32 // the next pair of the same result series, or -1
}

// result is a series of the result and the list of pairs that it comes from, at different steps.
type result struct {
	labels      labels.Labels
	first, last int32
}

// match pairs the series of two sides, and series without a match with what is filled in. It
// declines where Prometheus's engine would report that several match.
func match(q *operator.Query, n *plan.Binary, lhs, rhs []plan.Row) (*matched, error) {
	steps, fills := q.Grid.Steps, n.Matching.FillValues
	// The right value is for the one side wherever that is, as in Prometheus's engine.
	m := &matched{
		many: lhs, one: rhs, apply: kernel(n.Func, n.Bool), steps: steps,
		fillMany: repeatedValue(fills.LHS, steps), fillOne: repeatedValue(fills.RHS, steps),
	}
	sigs := sign(n.Matching, seriesOf(lhs), seriesOf(rhs))
	manySigs, oneSigs := sigs.of[0], sigs.of[1]
	if n.Matching.Card == parser.CardOneToMany {
		m.many, m.one, m.swapped = rhs, lhs, true
		manySigs, oneSigs = oneSigs, manySigs
	}
	p := pairer{
		matched: m, matching: n.Matching, drops: !n.Func.Compares || n.Bool && !q.DelayedNameRemoval,
		b:        labels.NewBuilder(labels.EmptyLabels()),
		byLabels: map[uint64]int32{}, besideNone: map[uint64]labels.Labels{},
	}
	byOne := make([][]int32, sigs.n)
	for j, sig := range oneSigs {
		byOne[sig] = append(byOne[sig], int32(j))
	}
	atMany, atOne := presentSteps(m.many, steps), presentSteps(m.one, steps)
	var anyMany, anyOne [][]uint64
	if m.fillMany != nil || m.fillOne != nil {
		anyMany, anyOne = anyOf(atMany, manySigs, sigs.n), anyOf(atOne, oneSigs, sigs.n)
	}
	filled := func(l labels.Labels) labels.Labels {
		return l.MatchLabels(n.Matching.On, n.Matching.MatchingLabels...)
	}
	m.pairs = make([]pair, 0, len(m.many))
	for i, sig := range manySigs {
		l := m.many[i].Labels
		for _, j := range byOne[sig] {
			p.add(pair{many: int32(i), one: j, sig: sig, at: and(atMany[i], atOne[j])}, l, m.one[j].Labels)
		}
		if m.fillOne != nil {
			p.add(pair{many: int32(i), one: -1, sig: sig, at: andNot(atMany[i], anyOne[sig])}, l, filled(l))
		}
	}
	for j, sig := range oneSigs {
		if l := m.one[j].Labels; m.fillMany != nil {
			p.add(pair{many: -1, one: int32(j), sig: sig, at: andNot(atOne[j], anyMany[sig])}, filled(l), l)
		}
	}
	switch {
	case m.oneRepeats(atOne, atMany, oneSigs, sigs.n) || m.pairsRepeat(n.Matching.Card == parser.CardOneToOne):
		return nil, &plan.Declined{At: n, Reason: reasonAmbiguous}
	case p.clash && steps > 1:
		return nil, &plan.Declined{At: n, Reason: "the labels of what is filled in depend on earlier steps"}
	}
	return m, nil
}

// oneRepeats reports whether two series of a signature of the one side have a value at a step at
// which the other side has any series, or something is filled in.
func (m *matched) oneRepeats(at, many [][]uint64, sigs []int32, n int) bool {
	seen := make([][]uint64, n)
	var any []uint64 // steps at which the other side has some
	for i, sig := range sigs {
		both := and(seen[sig], at[i])
		if both != nil && m.fillMany == nil && m.fillOne == nil {
			if any == nil {
				for i := range many {
					mark(&any, many[i])
				}
			}
			both = and(both, any)
		}
		if both != nil {
			return true
		}
		mark(&seen[sig], at[i])
	}
	return false
}

// pairsRepeat reports whether two pairs of a signature, which unless matching is one-to-one
// become the same series of the result, exist at a step.
func (m *matched) pairsRepeat(oneToOne bool) bool {
	seen := map[[2]int32][]uint64{}
	for i, res := range m.results {
		for k := res.first; k >= 0 && (oneToOne || res.first != res.last); k = m.pairs[k].next {
			p := &m.pairs[k]
			key := [2]int32{p.sig, int32(i)}
			if oneToOne {
				key[1] = 0
			}
			all := seen[key]
			if and(all, p.at) != nil {
				return true
			}
			mark(&all, p.at)
			seen[key] = all
		}
	}
	return false
}

// pairer collects pairs.
type pairer struct {
	*matched
	matching *parser.VectorMatching
	drops    bool // names
	b        *labels.Builder
	byLabels map[uint64]int32
	// besideNone has the labels of results, by those of the series that is beside one without labels.
	besideNone map[uint64]labels.Labels
	clash      bool // results of one series differ in their labels
}

// add notes a pair, if it exists at some steps, and the result that it belongs to.
func (p *pairer) add(x pair, many, one labels.Labels) {
	if x.at == nil {
		return
	}
	k := int32(len(p.pairs))
	x.next = -1
	p.pairs = append(p.pairs, x)
	l := p.labelsOf(many, one)
	if p.fillMany != nil || p.fillOne != nil {
		p.noteBesideNone(many, one, l)
	}
	h := l.Hash()
	res, ok := p.byLabels[h]
	if !ok {
		p.byLabels[h] = int32(len(p.results))
		p.results = append(p.results, result{labels: l, first: k, last: k})
		return
	}
	p.pairs[p.results[res].last].next = k
	p.results[res].last = k
}

// labelsOf are the labels of a series of the many side combined with one of the
// one side.
func (p *pairer) labelsOf(many, one labels.Labels) labels.Labels {
	p.b.Reset(many)
	if p.drops {
		schema.Metadata{}.SetToLabels(p.b)
	}
	if p.matching.Card == parser.CardOneToOne {
		if p.matching.On {
			p.b.Keep(p.matching.MatchingLabels...)
		} else {
			p.b.Del(p.matching.MatchingLabels...)
		}
	}
	for _, name := range p.matching.Include {
		p.b.Set(name, one.Get(name)) // an empty value deletes the label
	}
	return p.b.Labels()
}

// noteBesideNone notes the labels that a pair's result has where one side is without labels.
// Prometheus's engine takes those labels from a table for all steps, and finds them by the labels
// of both sides one after the other. So a series and what is filled in for nothing is to it the
// same pair as nothing and the series; results of different labels clash there.
func (p *pairer) noteBesideNone(many, one, result labels.Labels) {
	series := many
	switch {
	case many.IsEmpty():
		series = one
	case !one.IsEmpty():
		return
	}
	h := series.Hash()
	before, ok := p.besideNone[h]
	p.clash = p.clash || ok && !labels.Equal(before, result)
	p.besideNone[h] = result
}

func (m *matched) fill(i int, out dense.Row) bool {
	res := &m.results[i]
	for k := res.first; k >= 0; k = m.pairs[k].next {
		p := &m.pairs[k]
		many, one := valuesOf(m.many, p.many, m.fillMany), valuesOf(m.one, p.one, m.fillOne)
		for _, run := range dense.Runs(p.at, m.steps) {
			if res.first != res.last && out.Has(int(run.First), int(run.Len)) {
				return false
			}
			l, r := many(run), one(run)
			if m.swapped {
				l, r = r, l
			}
			m.apply(out, int(run.First), l, r)
		}
	}
	return true
}

// valuesOf returns what gives the values of a series at runs of steps, at all of which it has one,
// or what is filled in if i is -1.
func valuesOf(rows []plan.Row, i int32, fill []float64) func(plan.Run) []float64 {
	if i < 0 {
		return func(run plan.Run) []float64 { return fill[:run.Len] }
	}
	c := dense.RunCursor{Row: &rows[i]}
	return func(run plan.Run) []float64 { return c.Next(run.First, run.Len) }
}

// repeatedValue is a value at every step, or nil for none.
func repeatedValue(v *float64, steps int) []float64 {
	if v == nil {
		return nil
	}
	return slices.Repeat([]float64{*v}, steps)
}

// presentSteps are bitmaps of the steps at which each row has a value.
func presentSteps(rows []plan.Row, steps int) [][]uint64 {
	words := (steps + 63) / 64
	memory := make([]uint64, len(rows)*words)
	out := make([][]uint64, len(rows))
	for i := range rows {
		out[i] = memory[i*words : (i+1)*words : (i+1)*words]
		at := dense.Row{Present: out[i]}
		for _, run := range rows[i].Runs {
			at.Mark(int(run.First), int(run.Len))
		}
	}
	return out
}

// anyOf returns for each signature the steps at which any of its rows has a value, nil for those
// without rows.
func anyOf(at [][]uint64, sigs []int32, n int) [][]uint64 {
	out := make([][]uint64, n)
	for i, sig := range sigs {
		mark(&out[sig], at[i])
	}
	return out
}

// mark adds the steps of a bitmap to another, which may be nil.
func mark(all *[]uint64, at []uint64) {
	if *all == nil {
		*all = make([]uint64, len(at))
	}
	for w, bits := range at {
		(*all)[w] |= bits
	}
}

// and is the bitmap of what is in both a and b, or nil if that is nothing.
func and(a, b []uint64) (out []uint64) {
	for w := range min(len(a), len(b)) {
		if bits := a[w] & b[w]; bits != 0 {
			if out == nil {
				out = make([]uint64, len(a))
			}
			out[w] = bits
		}
	}
	return out
}

// andNot is the bitmap of what is in a and not in b, or nil if that is nothing.
func andNot(a, b []uint64) []uint64 {
	not := slices.Clone(a)
	for w, bits := range b {
		not[w] &^= bits
	}
	return and(a, not)
}

// set is the result of and, or or unless: rows of its inputs, some of them only
// at some of their steps.
type set []member

// member is a series of a set.
type member struct {
	row   *plan.Row
	at    []uint64  // the steps at which the row counts; nil for all
	other *plan.Row // of the same labels, at steps at which row does not count
}

// hasTypes reports whether one of the series has a type or unit.
func hasTypes(s *operator.Series) bool {
	for i := range s.N {
		if l := s.Labels(i); l.Has(model.MetricTypeLabel) || l.Has(model.MetricUnitLabel) {
			return true
		}
	}
	return false
}

// restrict is the result of and or unless: rows whose signatures have a value on the right side, or none.
func restrict(n *plan.Set, in *partners, steps int) set {
	lhs := in.Rows
	s := make(set, 0, len(lhs))
	left := andNot
	if n.Op == plan.And {
		left = and
	}
	for i, has := range presentSteps(lhs, steps) {
		if at := left(has, in.right.seen[in.sigs[in.Series[i]]]); at != nil {
			s = append(s, member{row: &lhs[i], at: at})
		}
	}
	return s
}

// union is the result of or: all rows of the left side, and the right side's where none of the left has
// their signature.
func union(n *plan.Set, lhs, rhs []plan.Row, steps int) set {
	sigs := sign(n.Matching, seriesOf(lhs), seriesOf(rhs))
	present := anyOf(presentSteps(lhs, steps), sigs.of[0], sigs.n)
	s := make(set, 0, len(lhs)+len(rhs))
	byLabels := make(map[uint64]int32, len(lhs))
	for i := range lhs {
		byLabels[lhs[i].Labels.Hash()] = int32(i)
		s = append(s, member{row: &lhs[i]})
	}
	for j, has := range presentSteps(rhs, steps) {
		at := andNot(has, present[sigs.of[1][j]])
		i, ok := byLabels[rhs[j].Labels.Hash()]
		switch {
		case at == nil:
		case ok:
			// One series, which has its value from the right side at the steps
			// at which the left has none.
			s[i] = member{&rhs[j], at, &lhs[i]}
		default:
			s = append(s, member{row: &rhs[j], at: at})
		}
	}
	return s
}

func (s set) fill(i int, out dense.Row) bool {
	m := &s[i]
	out.Put(m.row)
	if m.at != nil {
		copy(out.Present, m.at)
	}
	if m.other != nil {
		out.Put(m.other)
	}
	return true
}
