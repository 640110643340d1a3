package dense

// Equal, Greater and AtLeast compare up to 64 values with those of rhs: bit k says that it holds
// for value k.

// Equal tells which values are equal.
func Equal(lhs, rhs []float64) (word uint64) {
	k := atOnce(lhs, rhs)
	if k > 0 {
		word = equalVector(&lhs[0], &rhs[0], k)
	}
	for ; k < len(lhs); k++ {
		if lhs[k] == rhs[k] {
			word |= 1 << (k & 63)
		}
	}
	return word
}

// Greater tells which values are greater.
func Greater(lhs, rhs []float64) (word uint64) {
	k := atOnce(lhs, rhs)
	if k > 0 {
		word = greaterVector(&lhs[0], &rhs[0], k)
	}
	for ; k < len(lhs); k++ {
		if lhs[k] > rhs[k] {
			word |= 1 << (k & 63)
		}
	}
	return word
}

// AtLeast tells which values are greater or equal.
func AtLeast(lhs, rhs []float64) (word uint64) {
	k := atOnce(lhs, rhs)
	if k > 0 {
		word = atLeastVector(&lhs[0], &rhs[0], k)
	}
	for ; k < len(lhs); k++ {
		if lhs[k] >= rhs[k] {
			word |= 1 << (k & 63)
		}
	}
	return word
}

// atOnce is how many of the first values are compared several at a time.
func atOnce(lhs, rhs []float64) (n int) {
	if n = len(lhs) &^ 3; n == 0 || !hasVectors {
		return 0
	}
	_ = rhs[n-1]
	return n
}
