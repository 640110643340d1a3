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
