package dense

// Equal, Greater and AtLeast compare up to 64 values with those of rhs: bit k says that it holds
// for value k.

// Equal tells which values are equal.
func Equal(lhs, rhs []float64) (word uint64) {
	word, k := equalSome(lhs, rhs)
	for ; k < len(lhs); k++ {
		if lhs[k] == rhs[k] {
			word |= 1 << (k & 63)
		}
	}
	return word
}

// Greater tells which values are greater.
func Greater(lhs, rhs []float64) (word uint64) {
	word, k := greaterSome(lhs, rhs)
	for ; k < len(lhs); k++ {
		if lhs[k] > rhs[k] {
			word |= 1 << (k & 63)
		}
	}
	return word
}

// AtLeast tells which values are greater or equal.
func AtLeast(lhs, rhs []float64) (word uint64) {
	word, k := atLeastSome(lhs, rhs)
	for ; k < len(lhs); k++ {
		if lhs[k] >= rhs[k] {
			word |= 1 << (k & 63)
		}
	}
	return word
}
