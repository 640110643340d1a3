package exact

import "math"

// Extremes are the smallest and the largest value: of equal ones the first, and NaN only where all
// are. It compares bits as integers, which takes no branch that a processor must foresee: as signed
// ones those of positive values are in their order, and of negative ones the nearest to zero is the
// least; as unsigned ones the furthest from zero is the largest of all. Where NaNs or zeros below zero
// are found so, values are compared.
func Extremes(vs []float64) (lo, hi float64) {
	const infinite = 0x7ff << 52
	least, most, furthest := int64(math.MaxInt64), int64(math.MinInt64), uint64(0)
	for _, v := range vs {
		bits := math.Float64bits(v)
		least, most, furthest = min(least, int64(bits)), max(most, int64(bits)), max(furthest, bits)
	}
	if least != math.MinInt64 && most <= infinite && furthest&math.MaxInt64 <= infinite {
		lo, hi = math.Float64frombits(uint64(least)), math.Float64frombits(uint64(most))
		if most < 0 {
			hi = lo
		}
		if least < 0 {
			lo = math.Float64frombits(furthest)
		}
		return lo, hi
	}
	lo, hi = vs[0], vs[0]
	for _, v := range vs {
		if v < lo || lo != lo {
			lo = v
		}
		if v > hi || hi != hi {
			hi = v
		}
	}
	return lo, hi
}

// Extreme is the largest of the values, or the smallest one: NaN if the first is, and of zeros any.
func Extreme(vs []float64, smallest bool) float64 {
	best, n := extremeOfSome(vs, smallest)
	for _, v := range vs[n:] {
		if smallest && v < best || !smallest && v > best {
			best = v
		}
	}
	return best
}
