package aggregate

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// This file is the loops over a run's values. Each part has one of its own; visit makes several
// parts at once, with the same bits, for little more than the time of one: the sum's additions
// wait for each other, and the others fill that time. eight.of does so for eight runs at once.

// lanes is the number of runs that are visited at once, at most.
const lanes = 8

// visited are the parts that visit makes.
const visited = Sum | Extremes | Squares

// several reports whether there is more than one part.
func several(p Parts) bool { return p&(p-1) != 0 }

// addFinite adds v to sum, and the rounding error to c. Knuth's formula finds the error that
// Neumaier's does without a branch. If something overflows, c is NaN in the end.
func addFinite(v, sum, c float64) (float64, float64) {
	t := sum + v
	b := t - sum
	return t, c + ((sum - (t - b)) + (v - b))
}

// block is the number of squares that are added up before they are added to a compensated sum.
const block = 32

// visit makes the visited parts of a run. It reports false, and has made nothing of use, where a
// value is NaN or infinite, or a sum overflows.
func (s *State) visit(vs []float64) bool {
	from := vs[0]
	lo, hi := from, from
	var sum, c float64
	var q deviations
	for rest := vs; len(rest) > 0; {
		n := min(block, len(rest))
		var d1, d2 float64
		for _, v := range rest[:n] {
			t := sum + v // addFinite, which is not inlined twice
			b := t - sum
			c += (sum - (t - b)) + (v - b)
			sum = t
			if v < lo {
				lo = v
			}
			if v > hi {
				hi = v
			}
			d := v - from
			d1 += d
			d2 += float64(d * d)
		}
		q.add(d1, d2)
		rest = rest[n:]
	}
	s.Sum, s.C, s.Min, s.Max, s.Squares = sum, c, lo, hi, q.squares(len(vs))
	return finite(sum) && finite(c) && finite(q.two)
}

func sumOf(s *State, r *Samples) {
	var sum, c float64
	for _, v := range r.Values {
		sum, c = addFinite(v, sum, c)
	}
	if !finite(sum) || !finite(c) {
		sum, c = 0, 0
		for _, v := range r.Values {
			sum, c = kahansum.Inc(v, sum, c)
		}
		if !finite(sum) {
			c = exact.Mean(r.Values)
		}
	}
	s.Sum, s.C = sum, c
}

// deviations add up squared distances from the first value of a run, of which the square of the
// mean's own distance is taken off: a run that stays the same has none at all. The mean is at most
// as many standard deviations away as the root of the run's length, which bounds what that loses.
type deviations struct{ one, oneC, two, twoC float64 }

// add adds distances and their squares, added up over a block.
func (q *deviations) add(d1, d2 float64) {
	q.one, q.oneC = addFinite(d1, q.one, q.oneC)
	q.two, q.twoC = addFinite(d2, q.two, q.twoC)
}

// squares are the squared distances from the mean of n values, added up.
func (q *deviations) squares(n int) float64 {
	one := q.one + q.oneC
	v := q.two - float64(float64(one*one)/float64(n)) + q.twoC
	if v < 0 {
		return 0
	}
	return v
}

func squaresOf(s *State, r *Samples) {
	from := r.Values[0]
	var q deviations
	for rest := r.Values; len(rest) > 0; {
		n := min(block, len(rest))
		var d1, d2 float64
		for _, v := range rest[:n] {
			d := v - from
			d1 += d
			d2 += float64(d * d)
		}
		q.add(d1, d2)
		rest = rest[n:]
	}
	s.Squares = q.squares(len(r.Values))
	if !finite(q.two) && finite(s.Mean) {
		s.Squares = q.two // of finite values that are too large to be squared
	}
}

func extremesOf(s *State, r *Samples) {
	lo := r.Values[0]
	hi := lo
	if lo != lo {
		for _, v := range r.Values {
			if v == v {
				lo, hi = v, v
				break
			}
		}
	}
	for _, v := range r.Values {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	s.Min, s.Max = lo, hi
}

// areaOf has each value hold until the next sample, the last one until the window ends. Where the area
// is not finite, AreaC is the mean. A run of one sample at the end of its window holds for no time: its
// Area is that value and its Lap -1, and it counts only in a group where no run holds for any.
func areaOf(s *State, r *Samples) {
	if s.Lap = float64(r.End - r.Times[0]); s.Lap == 0 {
		s.Area, s.AreaC, s.Lap = r.Values[0], 0, -1
		if !finite(s.Area) {
			s.AreaC = s.Area
		}
		return
	}
	if s.Area, s.AreaC = r.area(1); finite(s.Area) {
		return
	}
	const scale = 0x1p-64 // so that no area of finite values overflows
	area, c := r.area(scale)
	if s.AreaC = (area + c) / s.Lap / scale; finite(area) {
		s.AreaC = bounded(s.AreaC)
	}
}

// area is the compensated sum of values, times scale, times the ms that they hold.
func (r *Samples) area(scale float64) (area, c float64) {
	last := len(r.Times) - 1
	for i, v := range r.Values[:last] {
		area, c = kahansum.Inc(float64(v*scale*float64(r.Times[i+1]-r.Times[i])), area, c)
	}
	if held := r.End - r.Times[last]; held > 0 {
		area, c = kahansum.Inc(float64(r.Values[last]*scale*float64(held)), area, c)
	}
	return area, c
}

func mergeAreas(s, o *State) {
	if s.Lap > 0 != (o.Lap > 0) { // the other one holds for no time
		if o.Lap > 0 {
			s.Area, s.AreaC, s.Lap = o.Area, o.AreaC, o.Lap
		}
		return
	}
	area, c := addSums(o.Area, o.AreaC, s.Area, s.AreaC)
	if !finite(area) {
		c = meanOfTwo(s.weightedMean(), s.Lap, o.weightedMean(), o.Lap)
	}
	s.Area, s.AreaC, s.Lap = area, c, s.Lap+o.Lap
}

func (s *State) weightedMean() float64 {
	if !finite(s.Area) {
		return s.AreaC
	}
	return (s.Area + s.AreaC) / math.Abs(s.Lap)
}
