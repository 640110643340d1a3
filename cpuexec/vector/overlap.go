package vector

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// overlap walks the stretches of steps that two lists of runs have in common.
type overlap struct {
	a, b         []plan.Run
	baseA, baseB int // values before the runs at the heads of a and b
	first, n     int // the stretch
	atA, atB     int // the index of its first value on either side
}

func (o *overlap) next() bool {
	for len(o.a) > 0 && len(o.b) > 0 {
		a, b := o.a[0], o.b[0]
		first, end := max(a.First, b.First), min(a.First+a.Len, b.First+b.Len)
		if first < end {
			o.first, o.n = int(first), int(end-first)
			o.atA, o.atB = o.baseA+int(first-a.First), o.baseB+int(first-b.First)
		}
		if a.First+a.Len == end {
			o.a, o.baseA = o.a[1:], o.baseA+int(a.Len)
		} else {
			o.b, o.baseB = o.b[1:], o.baseB+int(b.Len)
		}
		if first < end {
			return true
		}
	}
	return false
}

// meet reports whether lists of runs have a step in common.
func meet(a, b []plan.Run, more ...[]plan.Run) bool {
	for o := (overlap{a: a, b: b}); o.next(); {
		if len(more) == 0 || meet([]plan.Run{{First: int32(o.first), Len: int32(o.n)}}, more[0], more[1:]...) {
			return true
		}
	}
	return false
}

// union returns the steps at which any of the rows has a value.
func union(rows []plan.Row) []plan.Run {
	end := int32(0)
	for i := range rows {
		if rs := rows[i].Runs; len(rs) > 0 {
			last := rs[len(rs)-1]
			end = max(end, last.First+last.Len)
		}
	}
	any := make([]uint64, (end+63)/64)
	markAll(any, rows)
	return dense.Runs(any, int(end))
}

// markAll notes in a bitmap the steps at which any of the rows has a value.
func markAll(present []uint64, rows []plan.Row) {
	at := dense.Row{Present: present}
	for i := range rows {
		for _, run := range rows[i].Runs {
			at.Mark(int(run.First), int(run.Len))
		}
	}
}
