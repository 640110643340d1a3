package vector

import (
	"errors"
	"fmt"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// ambiguity returns Prometheus's error for an operator of which declined says that
// several series match: that of the first step at which there is one. It goes over all
// steps as Prometheus's engine does. Where it finds none, declined stays.
func findAmbiguity(q *operator.Query, n *plan.Binary, lhs, rhs []plan.Row, declined error) error {
	sigs := sign(n.Matching, lhs, rhs)
	a := ambiguity{
		n: n, namer: newNamer(n, q.DelayedNameRemoval), holds: Of(n.Func).holds,
		swapped: n.Matching.Card == parser.CardOneToMany,
		// At an instant Prometheus's engine looks at what comes out when names have gone.
		results: q.Grid.Steps > 1 || !q.DelayedNameRemoval,
		fills:   [2]*float64{n.Matching.FillValues.LHS, n.Matching.FillValues.RHS},
	}
	a.sides = [2]*matchSide{newMatchSide(lhs, sigs.of[0]), newMatchSide(rhs, sigs.of[1])}
	if a.swapped {
		a.sides[0], a.sides[1] = a.sides[1], a.sides[0]
	}
	for k := range q.Grid.Steps {
		if err := q.Done(); err != nil {
			return err
		}
		for _, s := range a.sides {
			s.step(int32(k))
		}
		if err := a.step(); err != nil {
			return err
		}
	}
	return declined
}

// ambiguity goes over the steps of an operator in search of an error.
type ambiguity struct {
	n       *plan.Binary
	namer   *namer
	holds   func(a, b float64) bool // of a comparison
	swapped bool                    // the many side is the right one
	results bool                    // whether results that are the same are an error
	fills   [2]*float64
	sides   [2]*matchSide // the many side and the one side

	matched map[int32]map[uint64]bool // results by signature
	seen    map[uint64]bool           // results with a value
}

// matchSide is one side of an operator, and which of its series have a value at a step.
type matchSide struct {
	rows    []plan.Row
	sigs    []int32
	cursors []dense.RunCursor
	present []int32
	values  []float64 // of those
}

func newMatchSide(rows []plan.Row, sigs []int32) *matchSide {
	s := &matchSide{rows: rows, sigs: sigs, cursors: make([]dense.RunCursor, len(rows))}
	for i := range rows {
		s.cursors[i].Row = &rows[i]
	}
	return s
}

// step goes on to a step, one after another.
func (s *matchSide) step(k int32) {
	s.present, s.values = s.present[:0], s.values[:0]
	for i := range s.cursors {
		if v := s.cursors[i].Next(k, 1); v != nil {
			s.present, s.values = append(s.present, int32(i)), append(s.values, v[0])
		}
	}
}

// matchSample is a series of a side, or what is filled in for one, at a step.
type matchSample struct {
	labels labels.Labels
	value  float64
}

func (s *matchSide) sample(at int) matchSample {
	return matchSample{s.rows[s.present[at]].Labels, s.values[at]}
}

// filled is what is filled in for the match of a sample.
func (a *ambiguity) filled(of matchSample, value float64) matchSample {
	return matchSample{of.labels.MatchLabels(a.n.Matching.On, a.n.Matching.MatchingLabels...), value}
}

// step returns the error of Prometheus's engine at the current step.
func (a *ambiguity) step() error {
	many, one := a.sides[0], a.sides[1]
	if len(many.present) == 0 && len(one.present) == 0 ||
		(len(many.present) == 0 || len(one.present) == 0) && a.fills[0] == nil && a.fills[1] == nil {
		return nil
	}
	a.matched, a.seen = map[int32]map[uint64]bool{}, map[uint64]bool{}
	bySig := map[int32]int{}
	for at, i := range one.present {
		sig := one.sigs[i]
		if other, ok := bySig[sig]; ok {
			return a.duplicate(one.sample(at).labels, one.sample(other).labels)
		}
		bySig[sig] = at
	}
	for at, i := range many.present {
		sig, l := many.sigs[i], many.sample(at)
		match, ok := bySig[sig]
		switch {
		case ok:
			if err := a.pair(l, one.sample(match), sig); err != nil {
				return err
			}
		case a.fills[1] != nil:
			if err := a.pair(l, a.filled(l, *a.fills[1]), sig); err != nil {
				return err
			}
		}
	}
	for at, i := range one.present {
		if sig, o := one.sigs[i], one.sample(at); a.fills[0] != nil && len(a.matched[sig]) == 0 {
			if err := a.pair(a.filled(o, *a.fills[0]), o, sig); err != nil {
				return err
			}
		}
	}
	return nil
}

// duplicate is the error of two series on the one side.
func (a *ambiguity) duplicate(x, y labels.Labels) error {
	side := "right"
	if a.swapped {
		side = "left"
	}
	group := x.MatchLabels(a.n.Matching.On, a.n.Matching.MatchingLabels...)
	first, second := x.String(), y.String()
	if first > second {
		first, second = second, first
	}
	return fmt.Errorf("found duplicate series for the match group %s on the %s hand-side of the operation: [%s, %s]"+
		";many-to-many matching not allowed: matching labels must be unique on one side", group.String(), side, first, second)
}

// pair notes what comes of a match and returns the error if something has already.
func (a *ambiguity) pair(many, one matchSample, sig int32) error {
	result := a.namer.result(many.labels, one.labels).Hash()
	matched := a.matched[sig]
	switch {
	case a.n.Matching.Card == parser.CardOneToOne && len(matched) > 0:
		return errors.New("multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)")
	case matched[result]:
		return errors.New("multiple matches for labels: grouping labels must ensure unique matches")
	case matched == nil:
		matched = map[uint64]bool{}
		a.matched[sig] = matched
	}
	matched[result] = true
	l, r := many.value, one.value
	if a.swapped {
		l, r = r, l
	}
	if a.n.Filters() && !a.holds(l, r) {
		return nil
	}
	if a.results && a.seen[result] {
		return ErrSameLabels
	}
	a.seen[result] = true
	return nil
}
