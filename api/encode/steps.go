package encode

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
)

// steps are the series of an executor's matrix, whose points are at the steps of one grid.
type steps struct {
	rows  []plan.Row
	slots []slot // of all steps
}

func newSteps(m *plan.Matrix) *steps {
	s := &steps{rows: m.Rows}
	if len(m.Rows) > 0 {
		s.slots = slotsOf(m.Grid)
	}
	return s
}

// lastGrid has the slots of the grid that was asked for last, if they are not many: the panels of a
// dashboard have the same.
var lastGrid atomic.Pointer[gridSlots]

// gridSlots are the slots of a grid's steps, which nobody changes.
type gridSlots struct {
	grid  plan.Grid
	slots []slot
}

// slotsOf returns the slots of a grid's steps, which are not to be changed.
func slotsOf(g plan.Grid) []slot {
	if l := lastGrid.Load(); l != nil && l.grid == g {
		return l.slots
	}
	l := &gridSlots{g, make([]slot, g.Steps)}
	for k := range l.slots {
		l.slots[k] = slotFor(g.At(k))
	}
	if g.Steps <= maxGrid {
		lastGrid.Store(l)
	}
	return l.slots
}

func (s *steps) labels(i int) labels.Labels     { return s.rows[i].Labels }
func (s *steps) floats(i int) int               { return len(s.rows[i].Values) }
func (s *steps) histograms(int) []promql.HPoint { return nil }

func (s *steps) appendFloats(b []byte, i, from, to int) []byte {
	row, at := &s.rows[i], 0
	for _, run := range row.Runs {
		lo, hi := max(from, at), min(to, at+int(run.Len))
		slots := s.slots[run.First:]
		if lo == 0 && hi > 0 {
			b = append(b, slots[0][opening:slots[0][slotBytes-1]]...)
			b = AppendFloat(b, row.Values[0])
			lo = 1
		}
		for lo < hi {
			end := min(hi, lo+blockPoints)
			b = appendSteps(b, slots[lo-at:end-at], row.Values[lo:end])
			lo = end
		}
		at += int(run.Len)
	}
	return b
}

// appendSteps appends values, each behind its slot.
func appendSteps(b []byte, slots []slot, values []float64) []byte {
	b, n := room(b, len(values)*pointBytes+slotBytes)
	slots = slots[:len(values)]
	// As in appendBlock.
	var last uint64
	lastAt, lastLen := 0, 0
	for i, v := range values {
		s := &slots[i]
		*(*slot)(b[n:]) = *s
		n += int(s[slotBytes-1] & (slotBytes - 1))
		if bits := math.Float64bits(v); bits == last && lastLen > 0 {
			*(*[textBytes]byte)(b[n:]) = *(*[textBytes]byte)(b[lastAt:])
			lastAt = n
			n += lastLen
		} else {
			last, lastAt = bits, n
			n = putFloat(b, n, v)
			lastLen = n - lastAt
		}
	}
	return b[:n]
}
