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

// packIfExact packs values, if they are integers and, in units of the power of two that all of them
// are a multiple of away from each other, no further apart than 32 bits hold.
func packIfExact(vs []float64) (p Packed, ok bool) {
	if len(vs) == 0 || !exact.IsInteger(vs[0]) || !exact.IsInteger(vs[len(vs)-1]) {
		return Packed{}, false
	}
	units, first := make([]uint32, len(vs)), int64(vs[0])
	low, high, differ := first, first, int64(0)
	for i, v := range vs {
		n := int64(v)
		if math.Float64bits(float64(n)) != math.Float64bits(v) {
			return Packed{}, false
		}
		low, high, differ = min(low, n), max(high, n), differ|(n-first)
		units[i] = uint32(n - first)
	}
	unit := 0
	if differ != 0 {
		unit = bits.TrailingZeros64(uint64(differ))
	}
	switch {
	case low <= -exact.MaxInteger || high >= exact.MaxInteger || uint64(high-low)>>unit > math.MaxUint32:
		return Packed{}, false
	case unit > 0:
		for i, v := range vs {
			units[i] = uint32((int64(v) - low) >> unit)
		}
	case low < first:
		for i := range units {
			units[i] += uint32(first - low)
		}
	}
	return Packed{Units: units, Base: float64(low), Unit: float64(int64(1) << unit)}, true
}

// append appends the values of units lo to hi, the end excluded, to out.
func (p *Packed) append(out []float64, lo, hi int) []float64 {
	units, n := p.Units[lo:hi], len(out)
	out = slices.Grow(out, len(units))[:n+len(units)]
	widen(out[n:], units, p.Base, p.Unit)
	return out
}

// widen fills to with base + units[i]*unit, which must be exact.
func widen(to []float64, units []uint32, base, unit float64) {
	for i, u := range units {
		to[i] = base + float64(float64(u)*unit)
	}
}

// Value is base + units[i]*unit.
func (p *Packed) Value(i int32) float64 { return p.Base + float64(float64(p.Units[i])*p.Unit) }
