package exact

// Extreme is the largest of the values, or the smallest one: NaN if the first is, and of zeros any.
func Extreme(vs []float64, smallest bool) float64 {
	best, n := extremeOfSome(vs, smallest)
	if smallest {
		for _, v := range vs[n:] {
			if v < best {
				best = v
			}
		}
		return best
	}
	for _, v := range vs[n:] {
		if v > best {
			best = v
		}
	}
	return best
}

// FirstExtreme is Prometheus's largest or smallest of values: of equal ones it is the first, and where
// there are only NaNs the last.
func FirstExtreme(vs []float64, smallest bool) float64 {
	best := vs[0]
	for _, v := range vs {
		if smallest && v < best || !smallest && v > best || best != best {
			best = v
		}
	}
	return best
}
