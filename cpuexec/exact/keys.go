package exact

import (
	"math"
	"slices"
)

// Order makes keys of bits: of a float64 an integer that is larger where the float is, or with a flip
// of ones where it is smaller. A shift by what is between the largest integer and the key of the
// infinite puts NaNs below all others. Units are their own keys.
type Order[T int64 | uint32] struct{ Flip, shift T }

// infinite are the bits of the infinite above zero, and its key.
const infinite = 0x7ff << 52

// OrderOf are the keys of bits of floats that are larger where these times sign, 1 or -1, are.
func OrderOf(sign float64) Order[int64] {
	return Order[int64]{Flip: int64(sign) >> 1, shift: math.MaxInt64 - int64(infinite)}
}

// ValueOf is the float with a key.
func ValueOf(key int64, o Order[int64]) float64 {
	return math.Float64frombits(uint64(Order[int64]{}.key((key - o.shift) ^ o.Flip)))
}

func (o Order[T]) key(bits T) T { return (bits ^ T(uint64(int64(bits)>>63)>>1) ^ o.Flip) + o.shift }

// largest is the largest key of some bits, made of four at once.
func (o Order[T]) largest(bits []T) T {
	best := [4]T{o.key(bits[0])}
	for i := range best {
		best[i] = best[0]
	}
	for len(bits) >= len(best) {
		a, b, c, d := o.key(bits[0]), o.key(bits[1]), o.key(bits[2]), o.key(bits[3])
		best[0], best[1], best[2], best[3] = max(best[0], a), max(best[1], b), max(best[2], c), max(best[3], d)
		bits = bits[len(best):]
	}
	for _, x := range bits {
		best[0] = max(best[0], o.key(x))
	}
	return max(best[0], best[1], best[2], best[3])
}

// Largest finds the largest keys of windows.
type Largest[T int64 | uint32] struct{ behind, best []T }

// Find returns the largest key of each window, los[k] to his[k], until giveUp reports true. A window is
// cut at a sample within it. Of each sample before that the largest key from there to the cut is
// known, and the largest behind it grows with the window. Once a window begins behind the cut, the
// next cut is at its end. No branch depends on a value.
//
//	       lo            cut          hi
//	-------[--------------|-----------]------> samples
//	        behind[lo] <--|--> grown
func (l *Largest[T]) Find(bits []T, o Order[T], los, his []int32, giveUp func(k int) bool) []T {
	l.behind = slices.Grow(l.behind[:0], len(bits))[:len(bits)]
	l.best = slices.Grow(l.best[:0], len(los))[:len(los)]
	cut, next, grown := int32(0), int32(0), T(0)
	for k, lo := range los {
		hi := his[k]
		switch {
		case giveUp(k):
			return l.best
		case lo == hi:
			continue
		case lo < cut:
			for _, x := range bits[next:hi] {
				grown = max(grown, o.key(x))
			}
			next, l.best[k] = hi, max(grown, l.behind[lo])
			continue
		}
		cut, next, grown = hi, hi, o.key(bits[hi-1])
		if k+1 == len(los) || los[k+1] >= hi { // nothing is asked of parts of the window
			l.best[k] = o.largest(bits[lo:hi])
			continue
		}
		in, behind, best := bits[lo:hi], l.behind[lo:hi], grown
		for i := len(in) - 1; i >= 0; i-- {
			best = max(best, o.key(in[i]))
			behind[i] = best
		}
		l.best[k] = best
	}
	return l.best
}
