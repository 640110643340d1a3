package aggregate

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"
)

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
