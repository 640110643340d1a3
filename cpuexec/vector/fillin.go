package vector

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// filledIn is the result of an operator that fills in for series without a match. As
// in matched, series match once; at which steps a pair exists is a bitmap.
type filledIn struct {
	many, one []plan.Row
	swapped   bool // the many side is the right one
	apply     func(out dense.Row, first int, lhs, rhs []float64)
	steps     int
	pairs     []filledPair
	results   []result
	// What is filled in on either side, a value a step; nil if nothing is.
	fillMany, fillOne []float64
}

// filledPair is a series of each side, of which one may be missing, at the steps of a
// bitmap.
type filledPair struct {
	many, one int32 // -1 for a missing one
	at        []uint64
	next      int32 // the next pair of the same result series, or -1
}

// fills reports whether an operator fills in for missing series.
func fills(n *plan.Binary) bool {
	return n.Matching.FillValues.LHS != nil || n.Matching.FillValues.RHS != nil
}

// fillIn pairs the series of two sides, and those that have no match with what is
// filled in. It declines where Prometheus's engine would report that several match.
func fillIn(q *operator.Query, n *plan.Binary, lhs, rhs []plan.Row) (*filledIn, error) {
	steps := q.Grid.Steps
	// The right value is for the one side wherever that is, as in Prometheus's engine.
	f := &filledIn{
		many: lhs, one: rhs, apply: kernel(n.Func, n.Bool), steps: steps,
		fillMany: repeatedValue(n.Matching.FillValues.LHS, steps), fillOne: repeatedValue(n.Matching.FillValues.RHS, steps),
	}
	sigs := sign(n.Matching, lhs, rhs)
	manySigs, oneSigs := sigs.of[0], sigs.of[1]
	if n.Matching.Card == parser.CardOneToMany {
		f.many, f.one, f.swapped = rhs, lhs, true
		manySigs, oneSigs = oneSigs, manySigs
	}
	anyMany, anyOne := presence(f.many, manySigs, sigs.n, steps), presence(f.one, oneSigs, sigs.n, steps)
	p := pairer{
		filledIn: f, namer: newNamer(n, q.DelayedNameRemoval), oneToOne: n.Matching.Card == parser.CardOneToOne,
		byLabels: map[uint64]int32{}, taken: map[[2]int32][]uint64{},
		besideNone: map[uint64]labels.Labels{},
	}
	byOne := make([][]int32, sigs.n)
	for j, sig := range oneSigs {
		byOne[sig] = append(byOne[sig], int32(j))
	}
	ok := !repeatsSignature(f.one, oneSigs, sigs.n, steps)
	for i, sig := range manySigs {
		at := presentSteps(f.many, i, steps)
		l := f.many[i].Labels
		for _, j := range byOne[sig] {
			ok = ok && p.add(int32(i), j, sig, and(at, presentSteps(f.one, int(j), steps)), l, f.one[j].Labels)
		}
		if f.fillOne != nil {
			ok = ok && p.add(int32(i), -1, sig, andNot(at, anyOne[sig]), l, l.MatchLabels(n.Matching.On, n.Matching.MatchingLabels...))
		}
	}
	for j, sig := range oneSigs {
		if f.fillMany != nil {
			l := f.one[j].Labels
			ok = ok && p.add(-1, int32(j), sig, andNot(presentSteps(f.one, int(j), steps), anyMany[sig]), l.MatchLabels(n.Matching.On, n.Matching.MatchingLabels...), l)
		}
	}
	switch {
	case !ok:
		return nil, &plan.Declined{At: n, Reason: reasonAmbiguous}
	case p.clash && steps > 1:
		return nil, &plan.Declined{At: n, Reason: "the labels of what is filled in depend on earlier steps"}
	}
	return f, nil
}

// pairer collects pairs.
type pairer struct {
	*filledIn
	namer    *namer
	oneToOne bool
	byLabels map[uint64]int32
	taken    map[[2]int32][]uint64 // steps by signature, and unless matching is one-to-one by result
	// besideNone has the labels of results, by those of the series that is beside one without labels.
	besideNone map[uint64]labels.Labels
	clash      bool // results of one series differ in their labels
}

// add notes a pair that exists at some steps and the result that it belongs to. It
// returns false if Prometheus's engine reports it, with another one.
func (p *pairer) add(many, one, sig int32, at []uint64, manyLabels, oneLabels labels.Labels) bool {
	if at == nil {
		return true
	}
	k := int32(len(p.pairs))
	p.pairs = append(p.pairs, filledPair{many: many, one: one, at: at, next: -1})
	l := p.namer.result(manyLabels, oneLabels)
	p.remember(manyLabels, oneLabels, l)
	h := l.Hash()
	res, ok := p.byLabels[h]
	if !ok {
		res = int32(len(p.results))
		p.byLabels[h] = res
		p.results = append(p.results, result{labels: l, first: k, last: k})
	} else {
		p.pairs[p.results[res].last].next = k
		p.results[res].last = k
	}
	key := [2]int32{sig, res}
	if p.oneToOne {
		key[1] = 0
	}
	if and(p.taken[key], at) != nil {
		return false
	}
	p.taken[key] = or(p.taken[key], at)
	return true
}

// remember notes the labels that a pair's result has where one side is without labels. Prometheus's
// engine takes those labels from a table for all steps, and finds them by the labels of both sides
// one after the other. So a series and what is filled in for nothing is to it the same pair as
// nothing and the series; results of different labels clash there.
func (p *pairer) remember(many, one, result labels.Labels) {
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

func (f *filledIn) Size() int { return len(f.results) }

func (f *filledIn) Labels(i int) labels.Labels { return f.results[i].labels }

func (f *filledIn) fill(i int, out dense.Row) bool {
	res := &f.results[i]
	for k := res.first; k >= 0; k = f.pairs[k].next {
		p := &f.pairs[k]
		many, one := sideCursor(f.many, p.many), sideCursor(f.one, p.one)
		for _, run := range dense.Runs(p.at, f.steps) {
			if res.first != res.last && out.Has(int(run.First), int(run.Len)) {
				return false
			}
			l, r := many.values(run, f.fillMany), one.values(run, f.fillOne)
			if f.swapped {
				l, r = r, l
			}
			f.apply(out, int(run.First), l, r)
		}
	}
	return true
}

// side is a series of a side, or none.
type side struct{ dense.RunCursor }

func sideCursor(rows []plan.Row, i int32) side {
	if i < 0 {
		return side{}
	}
	return side{dense.RunCursor{Row: &rows[i]}}
}

// values are those at a run of steps at all of which the series has one, or where
// there is no series what is filled in.
func (s *side) values(run plan.Run, fill []float64) []float64 {
	if s.Row == nil {
		return fill[:run.Len]
	}
	return s.Next(run.First, run.Len)
}

// repeatedValue is a value at every step, or nil for none.
func repeatedValue(v *float64, steps int) []float64 {
	if v == nil {
		return nil
	}
	out := make([]float64, steps)
	for k := range out {
		out[k] = *v
	}
	return out
}

// repeatsSignature reports whether two rows of one signature have a value at a step.
func repeatsSignature(rows []plan.Row, sigs []int32, n, steps int) bool {
	seen := make([][]uint64, n)
	for i, sig := range sigs {
		at := presentSteps(rows, i, steps)
		if and(seen[sig], at) != nil {
			return true
		}
		seen[sig] = or(seen[sig], at)
	}
	return false
}

// presentSteps is the bitmap of the steps at which a row has a value.
func presentSteps(rows []plan.Row, i, steps int) []uint64 {
	at := make([]uint64, (steps+63)/64)
	markAll(at, rows[i:i+1])
	return at
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

// andNot is the bitmap of what is in a and not in b, which may be nil, or nil if that is
// nothing.
func andNot(a, b []uint64) (out []uint64) {
	for w, bits := range a {
		if b != nil {
			bits &^= b[w]
		}
		if bits != 0 {
			if out == nil {
				out = make([]uint64, len(a))
			}
			out[w] = bits
		}
	}
	return out
}

// or adds b to a, which may be nil.
func or(a, b []uint64) []uint64 {
	if a == nil {
		a = make([]uint64, len(b))
	}
	for w, bits := range b {
		a[w] |= bits
	}
	return a
}
