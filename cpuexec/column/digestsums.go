package column

import (
	"math"
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// sums are the sums of values up to each chunk as integers, multiples of a unit, a power of two
// that divides all values. They are exact, so it does not matter where a window begins.
//
//	value = digits * 2^e, below 2^53 digits
//	unit  = 2^exponent, with 0 <= e - exponent <= mostShift where digits is not a multiple of 2
type sums struct {
	upTo     []exact.Int192
	exponent int
	set      bool     // the exponent is, by the first chunk with a value other than 0
	odd      []uint32 // chunks with values that are not finite
	most     float64  // the largest magnitude
	lowest   int      // the exponent of the lowest bit that is set in a value
	inexact  bool     // the unit does not suit all values
}

const (
	// mostShift is such that a value of 53 bits and 2^62 of them have a sum of 192 bits.
	mostShift = 62
	// room is by how many bits the unit is less than the least bit of the first chunk's values, at
	// least.
	room = 24
	// Magnitudes up to largest, and bits from least on, are added up.
	largest, leastBit = 0x1p450, -500
)

// bitsOf returns a finite value that is not 0 as digits times 2^e. digits has its sign.
func bitsOf(v float64) (digits int64, e int) {
	fraction, e := math.Frexp(v)
	return int64(fraction * (1 << 53)), e - 53
}

// lowestBit is the exponent of the lowest bit that is set in a value, which is finite and not 0.
func lowestBit(v float64) int {
	digits, e := bitsOf(v)
	return e + bits.TrailingZeros64(uint64(digits))
}

// term is a value as a multiple of the unit 2^exponent. It reports false where it is none, or too
// large.
func term(v float64, exponent int) (exact.Int192, bool) {
	digits, e := bitsOf(v)
	if e < exponent {
		down := exponent - e
		if down > 52 || digits&(1<<down-1) != 0 {
			return exact.Int192{}, false
		}
		digits, e = digits>>down, exponent
	}
	if e-exponent > mostShift {
		return exact.Int192{}, false
	}
	return exact.Product(digits, 1<<(e-exponent)), true
}

// add adds the values of the next chunk, which has that number.
func (s *sums) add(chunk int, vs []float64) {
	if s.inexact {
		return
	}
	if !s.set {
		s.lowest = math.MaxInt
		for _, v := range vs {
			if v != 0 && v-v == 0 {
				s.lowest, s.set = min(s.lowest, lowestBit(v)), true
				s.exponent = (s.lowest - room) >> 4 << 4 // mostly the same whichever chunk is the first
			}
		}
	}
	t, ok := Total{Sum: s.upTo[len(s.upTo)-1], Exponent: s.exponent, Lowest: s.lowest, Most: s.most}, true
	for _, v := range vs {
		if v-v != 0 {
			if n := len(s.odd); n == 0 || s.odd[n-1] != uint32(chunk) {
				s.odd = append(s.odd, uint32(chunk))
			}
		} else if ok = ok && t.add(v); !ok {
			*s = sums{inexact: true}
			return
		}
	}
	s.upTo, s.lowest, s.most = append(s.upTo, t.Sum), t.Lowest, t.Most
}

// copy adds what old knows of its chunks from to to, the end excluded, as chunks from a number on.
func (s *sums) copy(old *sums, from, to, number int) {
	switch {
	case s.inexact:
		return
	case old.inexact || s.set && old.set && s.exponent != old.exponent:
		*s = sums{inexact: true}
		return
	case !s.set:
		s.set, s.exponent, s.lowest = old.set, old.exponent, old.lowest
	}
	if old.set {
		s.most, s.lowest = max(s.most, old.most), min(s.lowest, old.lowest)
	}
	more := s.upTo[len(s.upTo)-1].Sub(old.upTo[from])
	for _, sum := range old.upTo[from+1 : to+1] {
		s.upTo = append(s.upTo, sum.Add(more))
	}
	first, _ := slices.BinarySearch(old.odd, uint32(from))
	for _, k := range old.odd[first:] {
		if int(k) < to {
			s.odd = append(s.odd, k-uint32(from)+uint32(number))
		}
	}
}

// Total is the sum of samples as a multiple of 2^Exponent. None is larger than Most, and each is a
// multiple of 2^Lowest.
type Total struct {
	Sum              exact.Int192
	Exponent, Lowest int
	Most             float64
}

// add adds a value, if it is finite and a multiple of 2^Exponent that is not too large.
func (t *Total) add(v float64) (ok bool) {
	if v == 0 {
		return true
	}
	x, ok := term(v, t.Exponent)
	t.Sum, t.Most, t.Lowest = t.Sum.Add(x), max(t.Most, math.Abs(v)), min(t.Lowest, lowestBit(v))
	return ok && t.Most <= largest && t.Lowest >= leastBit
}

// Total is that of all samples of the window. It reports false where one is not finite, or there is
// no such exponent.
func (w *Digested) Total() (t Total, ok bool) {
	s := &w.digests.sums
	at, _ := slices.BinarySearch(s.odd, uint32(w.begin))
	if s.inexact || at < len(s.odd) && int(s.odd[at]) < w.end {
		return t, false
	}
	t = Total{Sum: s.upTo[w.end].Sub(s.upTo[w.begin]), Exponent: s.exponent, Lowest: s.lowest, Most: s.most}
	for _, vs := range [2][]float64{w.Head, w.Tail[1:]} {
		for _, v := range vs {
			if v-v != 0 || v != 0 && !s.set || !t.add(v) {
				return t, false
			}
		}
	}
	return t, true
}
