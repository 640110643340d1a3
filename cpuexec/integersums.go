package cpuexec

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// integerSums fills out with the sum of each window of fr, or with its mean, from the
// packed values of in and those that come then. It reports false, with nothing filled
// in, where these are not integers or the largest sum may be none that a float64 holds.
//
// A sum of integers, none of whose parts is beyond 2^53, is exact in whatever order
// it is added up, and its compensation is 0. So a window's is the difference of two
// sums of all samples up to its ends; that these wrap around does not matter.
func (s *evaluator) integerSums(fr *frame, in *column.Samples, mean bool, out dense.Row) bool {
	if in.Units == nil {
		return false
	}
	first, end := int(fr.first()), int(fr.end())
	known := min(len(in.Units), end)
	s.upTo = slices.Grow(s.upTo[:0], end+1)[:end+1]
	upTo, sum := s.upTo, int64(0)
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	if first < known {
		base, unit := int64(in.Base), int64(in.Unit)
		units, to := in.Units[first:known], upTo[first:known]
		least, most := units[0], units[0]
		for i, u := range units {
			to[i] = sum
			sum += base + int64(u)*unit
			least, most = min(least, u), max(most, u)
		}
		low, high = base+int64(least)*unit, base+int64(most)*unit
	}
	for i := max(known, first); i < end; i++ {
		v := in.Values[i-len(in.Units)]
		if !exact.IsInteger(v) {
			return false
		}
		upTo[i] = sum
		sum += int64(v)
		low, high = min(low, int64(v)), max(high, int64(v))
	}
	upTo[end] = sum
	if float64(max(high, -low))*float64(fr.counts.MaxWindow) > exact.MaxInteger {
		return false
	}
	copy(out.Present, fr.any)
	for k := fr.from; k < fr.to; k++ {
		lo, hi := fr.lo[k], fr.hi[k]
		if lo == hi {
			continue
		}
		v := float64(upTo[hi] - upTo[lo])
		if mean {
			v /= float64(hi - lo)
		}
		out.Values[k] = v
	}
	return true
}
