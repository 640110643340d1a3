package column

import (
	"math"
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Packed are values that take half the memory: base + units[i]*unit, exactly.
// Counters of events and gauges of bytes are of this kind; shares and seconds
// are not.
type Packed struct {
	Units []uint32
	Base  float64
	Unit  float64 // a power of two
}

// packIfExact packs values, if they can be.
func packIfExact(vs []float64) (p Packed, ok bool) {
	if len(vs) == 0 || !exact.IsInteger(vs[0]) || !exact.IsInteger(vs[len(vs)-1]) {
		return Packed{}, false
	}
	units := make([]uint32, len(vs))
	if packGrowing(units, vs) {
		return Packed{Units: units, Base: vs[0], Unit: 1}, true
	}
	base, unit, ok := rangeOf(vs)
	if !ok {
		return Packed{}, false
	}
	return pack(units, vs, base, unit), true
}

// packGrowing fills units with how much larger than the first value, an integer, each is. It reports
// whether all values are integers and that fits, as of most counters. It looks at each value once,
// rangeOf and pack look twice.
func packGrowing(units []uint32, vs []float64) bool {
	base := int64(vs[0])
	for i, v := range vs {
		n := int64(v) - base
		if uint64(n) > math.MaxUint32 || !exact.IsInteger(v) {
			return false
		}
		units[i] = uint32(n)
	}
	return true
}

// pack packs values of which rangeOf says that they can be, into units.
func pack(units []uint32, vs []float64, base int64, unit int) Packed {
	for i, v := range vs {
		units[i] = uint32((int64(v) - base) >> unit)
	}
	return Packed{Units: units, Base: float64(base), Unit: float64(int64(1) << unit)}
}

// rangeOf returns the least of the values and the power of two that all of them
// are a multiple of away from it, if they are integers that can be packed so. There
// is one value at least.
func rangeOf(vs []float64) (base int64, unit int, ok bool) {
	first := int64(vs[0])
	low, high, differ := first, first, int64(0)
	for _, v := range vs {
		if !exact.IsInteger(v) {
			return 0, 0, false
		}
		n := int64(v)
		low, high, differ = min(low, n), max(high, n), differ|(n-first)
	}
	if differ == 0 {
		return first, 0, true
	}
	unit = bits.TrailingZeros64(uint64(differ))
	return low, unit, uint64(high-low)>>unit <= math.MaxUint32
}

// append appends the values of units lo to hi, the end excluded, to out.
func (p *Packed) append(out []float64, lo, hi int) []float64 {
	units, n := p.Units[lo:hi], len(out)
	out = slices.Grow(out, len(units))[:n+len(units)]
	widen(out[n:], units, p.Base, p.Unit)
	return out
}

// widenEach is widen, unit by unit.
func widenEach(to []float64, units []uint32, base, unit float64) {
	for i, u := range units {
		to[i] = base + float64(float64(u)*unit)
	}
}

// Value is base + units[i]*unit.
func (p *Packed) Value(i int32) float64 { return p.Base + float64(float64(p.Units[i])*p.Unit) }
