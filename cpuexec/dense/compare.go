package dense

// Equal, Greater and AtLeast compare up to 64 values with those of rhs: bit k says that it holds
// for value k.

// Equal tells which values are equal.
func Equal(lhs, rhs []float64) uint64 {
	return compare(lhs, rhs, equalVector, func(l, r float64) bool { return l == r })
}

// Greater tells which values are greater.
func Greater(lhs, rhs []float64) uint64 {
	return compare(lhs, rhs, greaterVector, func(l, r float64) bool { return l > r })
}

// AtLeast tells which values are greater or equal.
func AtLeast(lhs, rhs []float64) uint64 {
	return compare(lhs, rhs, atLeastVector, func(l, r float64) bool { return l >= r })
}

// compare tells for which values holds is true: vector does so for several at a time.
func compare(lhs, rhs []float64, vector func(lhs, rhs *float64, n int) uint64, holds func(l, r float64) bool) (word uint64) {
	k := 0
	if n := len(lhs) &^ 3; n > 0 && hasVectors {
		word, k = vector(&lhs[0], &rhs[:n][0], n), n
	}
	for ; k < len(lhs); k++ {
		if holds(lhs[k], rhs[k]) {
			word |= 1 << (k & 63)
		}
	}
	return word
}
