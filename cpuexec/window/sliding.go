package window

import (
	"math"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// oddities tells which windows have samples that are not finite.
type oddities struct {
	vs []float64
	at []int32 // those samples, of which the ones before the window are dropped
}

// in reports whether any of the samples lo to hi is not finite, and whether one
// of them is NaN. Windows are asked for in order.
func (o *oddities) in(lo, hi int32) (any, nan bool) {
	for len(o.at) > 0 && o.at[0] < lo {
		o.at = o.at[1:]
	}
	for _, k := range o.at {
		if k >= hi {
			break
		}
		if any = true; o.vs[k] != o.vs[k] {
			return true, true
		}
	}
	return any, false
}

// Sliding costs, for each sample and each step, about as much as this many
// samples of a window cost that is computed anew.
const sumCost, varianceCost, regressionCost, quantileCost, deviationCost, extremeCost = 12, 6, 6, 2, 5, 40

// slideOffsets decides whether to slide over the values, and prepares for it: with integers of 62 bits,
// or, where the values of all windows are narrow, with their offsets. Packed values are unpacked only
// where the former are wanted. reach is that of exact.Fixed.Narrow.
func (s *Evaluator) slideOffsets(cost int, reach int64) (offsets []uint32, ok bool) {
	if !s.bounds.Overlap(cost) {
		return nil, false
	}
	first, end, f := int(s.bounds.First()), int(s.bounds.End()), &s.fixed
	if units := s.unitsOf(s.in.Packed, s.in.Values, end); units != nil {
		low, high := exact.Range(units[first:end])
		if f.SetNarrow(s.in.Base, s.in.Unit, low, high); f.Narrow(s.bounds.Most, reach) {
			return units, true
		}
	}
	if !f.Set(s.values(), first, end) {
		return nil, false
	}
	if f.Narrow(s.bounds.Most, reach) {
		s.offsets = f.Offsets(s.offsets, first, end)
		return s.offsets, true
	}
	return nil, true
}

// values are all values, packed or not.
func (s *Evaluator) values() []float64 {
	s.in.Unpack(&s.joined)
	return s.in.Values
}

// unitsOf returns the units of packed samples up to the given one, and of those of tail, which
// come then, or nil where one of them has none.
func (s *Evaluator) unitsOf(packed column.Packed, tail []float64, end int) []uint32 {
	known := len(packed.Units)
	if known == 0 || end <= known {
		return packed.Units
	}
	s.offsets = append(s.offsets[:0], packed.Units...)
	for _, v := range tail[:end-known] {
		u := (v - packed.Base) / packed.Unit
		if !(u >= 0 && u <= math.MaxUint32) || packed.Base+float64(float64(uint32(u))*packed.Unit) != v || !exact.IsInteger(v) {
			return nil
		}
		s.offsets = append(s.offsets, uint32(u))
	}
	return s.offsets
}
