package vector

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// set is the result of and, or or unless: rows of its inputs, some of them only
// at some of their steps.
type set struct {
	members []member
}

// member is a series of a set.
type member struct {
	row *plan.Row
	// With a mask the row counts only at the steps in it, or with except only at
	// the others.
	mask   []uint64
	except bool
	other  *plan.Row // of the same labels, at steps at which row has no value
}

// hasTypes reports whether a row has a type or unit.
func hasTypes(rows []plan.Row) bool {
	for i := range rows {
		if l := rows[i].Labels; l.Has(model.MetricTypeLabel) || l.Has(model.MetricUnitLabel) {
			return true
		}
	}
	return false
}

// setOf combines two sets of series over so many steps.
func setOf(n *plan.Set, lhs, rhs []plan.Row, steps int) *set {
	sigs := sign(n.Matching, lhs, rhs)
	if n.Op != plan.Or {
		present := anyOf(presentSteps(rhs, steps), sigs.of[1], sigs.n)
		s := &set{members: make([]member, 0, len(lhs))}
		for i := range lhs {
			m := member{row: &lhs[i], except: n.Op == plan.Unless, mask: present[sigs.of[0][i]]}
			if m.except || m.mask != nil {
				s.members = append(s.members, m)
			}
		}
		return s
	}
	present := anyOf(presentSteps(lhs, steps), sigs.of[0], sigs.n)
	s := &set{members: make([]member, 0, len(lhs)+len(rhs))}
	byLabels := make(map[uint64]int32, len(lhs))
	for i := range lhs {
		byLabels[lhs[i].Labels.Hash()] = int32(i)
		s.members = append(s.members, member{row: &lhs[i]})
	}
	for j := range rhs {
		m := member{row: &rhs[j], except: true, mask: present[sigs.of[1][j]]}
		if i, ok := byLabels[rhs[j].Labels.Hash()]; ok {
			// One series, which has its value from the right side at the steps
			// at which the left has none.
			m.other = &lhs[i]
			s.members[i] = m
			continue
		}
		s.members = append(s.members, m)
	}
	return s
}

func (s *set) Size() int { return len(s.members) }

func (s *set) Labels(i int) labels.Labels { return s.members[i].row.Labels }

func (s *set) fill(i int, out dense.Row) bool {
	m := &s.members[i]
	out.Put(m.row)
	for w, bits := range m.mask {
		if m.except {
			bits = ^bits
		}
		out.Present[w] &= bits
	}
	if m.other != nil {
		out.Put(m.other)
	}
	return true
}
