package operator

import (
	"math/bits"

	"github.com/prometheus/prometheus/util/annotations"
)

// Repeated returns n notes, each from one, merged into one; n is meant
// modulo 2^64, since the numbers of many steps overflow.
func Repeated(one func() error, n uint64) (a annotations.Annotations) {
	a.Add(one())
	if n == 0 {
		for range 64 {
			a.Merge(a)
		}
		return a
	}
	for b := bits.Len64(n) - 2; b >= 0; b-- {
		a.Merge(a)
		if n>>b&1 == 1 {
			a.Add(one())
		}
	}
	return a
}
