package aggregate

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/resample/bucket"
)

// This file is how parts are made of runs: each is a loop over all of these.

func countsOf(states []State, in *Runs, _ *Memory) {
	for k, run := range in.Runs {
		states[k].N = int64(run.End - run.First)
	}
}

func endsOf(states []State, in *Runs, _ *Memory) {
	for k, run := range in.Runs {
		s, first, last := &states[k], run.First, run.End-1
		s.First, s.FirstAt, s.Last, s.LastAt = in.Values[first], in.Times[first], in.Values[last], in.Times[last]
	}
}

func valuesOf(states []State, in *Runs, m *Memory) {
	m.Values = m.Values[:0]
	for k := range states {
		m.Values = append(m.Values, in.values(k)...)
	}
	at := 0
	for k := range states {
		end := at + len(in.values(k))
		states[k].Values, at = m.Values[at:end:end], end
	}
}

func timesOf(states []State, in *Runs, m *Memory) {
	m.times = m.times[:0]
	for _, run := range in.Runs {
		m.times = append(m.times, in.Times[run.First:run.End]...)
	}
	at := 0
	for k := range states {
		end := at + len(in.values(k))
		states[k].Times, at = m.times[at:end:end], end
	}
}

func meansOf(states []State, _ *Runs, _ *Memory) {
	for k := range states {
		states[k].Mean = states[k].mean()
	}
}

// sumsOf makes Prometheus's sums, of neighbouring runs side by side.
func sumsOf(states []State, in *Runs, m *Memory) {
	for first := 0; first < len(states); first += exact.Abreast {
		together := in.Runs[first:min(first+exact.Abreast, len(states))]
		common := m.abreast(in.Values, together)
		for i := range together {
			s, vs := &states[first+i], in.values(first+i)
			if s.Sum, s.C = m.side.Of(0, i); common < len(vs) {
				s.Sum, s.C = exact.Accumulate(vs[common:], s.Sum, s.C)
			}
			if !finite(s.Sum) || !finite(s.C) {
				if s.Sum, s.C = exact.Accumulate(vs, 0, 0); !finite(s.Sum) {
					s.C = exact.Mean(vs)
				}
			}
		}
	}
}

// abreast adds up side by side the first values of up to exact.Abreast runs, and returns how many of each.
func (m *Memory) abreast(values []float64, runs []bucket.Run) (common int) {
	if len(runs) == 1 || !exact.CanAbreast() {
		m.side = exact.Sums{}
		return 0
	}
	common = int(runs[0].End - runs[0].First)
	var first [exact.Abreast]int32
	for i := range first {
		run := runs[min(i, len(runs)-1)]
		first[i], common = run.First, min(common, int(run.End-run.First))
	}
	m.side.AddAbreast(values, &first, common)
	return common
}

// block is the number of squares that are added up before they are added to a compensated sum.
const block = 32

// squaresOf adds up squared distances from the first value of a run, of which the square of the
// mean's own distance is taken off: a run that stays the same has none at all. The mean is at most
// as many standard deviations away as the root of the run's length, which bounds what that loses.
func squaresOf(states []State, in *Runs, _ *Memory) {
	for k := range states {
		s, vs := &states[k], in.values(k)
		from, n := vs[0], float64(len(vs))
		var one, oneC, two, twoC float64
		for len(vs) > 0 {
			some := vs[:min(block, len(vs))]
			var d1, d2 float64
			for _, v := range some {
				d := v - from
				d1 += d
				d2 += float64(d * d)
			}
			one, oneC = addFinite(d1, one, oneC)
			two, twoC = addFinite(d2, two, twoC)
			vs = vs[len(some):]
		}
		one += oneC
		s.Squares = two - float64(float64(one*one)/n) + twoC
		switch {
		case s.Squares < 0:
			s.Squares = 0
		case !finite(two) && finite(s.Mean):
			s.Squares = two // of finite values that are too large to be squared
		}
	}
}

// addFinite adds v to sum, and the rounding error to c. Knuth's formula finds the error that
// Neumaier's does without a branch. If something overflows, c is NaN in the end.
func addFinite(v, sum, c float64) (float64, float64) {
	t := sum + v
	b := t - sum
	return t, c + ((sum - (t - b)) + (v - b))
}

func extremesOf(states []State, in *Runs, _ *Memory) {
	for k := range states {
		states[k].Min, states[k].Max = exact.Extremes(in.values(k))
	}
}

// areasOf has each value hold until the next sample, the last one until the window ends. Where the area
// is not finite, AreaC is the mean. A run of one sample at the end of its window holds for no time: its
// Area is that value and its Lap -1, and it counts only in a group where no run holds for any.
func areasOf(states []State, in *Runs, _ *Memory) {
	for k, run := range in.Runs {
		s, ts, vs, end := &states[k], in.Times[run.First:run.End], in.values(k), in.Grid.Closes(run.Bucket)
		if s.Lap = float64(end - ts[0]); s.Lap == 0 {
			s.Area, s.AreaC, s.Lap = vs[0], 0, -1
			if !finite(s.Area) {
				s.AreaC = s.Area
			}
			continue
		}
		if s.Area, s.AreaC = area(ts, vs, end, 1); finite(s.Area) {
			continue
		}
		const scale = 0x1p-64 // so that no area of finite values overflows
		sum, c := area(ts, vs, end, scale)
		if s.AreaC = (sum + c) / s.Lap / scale; finite(sum) {
			s.AreaC = bounded(s.AreaC)
		}
	}
}

// area is the compensated sum of values, times scale, times the ms that they hold.
func area(ts []int64, vs []float64, end int64, scale float64) (sum, c float64) {
	last := len(ts) - 1
	for i, v := range vs[:last] {
		sum, c = kahansum.Inc(float64(v*scale*float64(ts[i+1]-ts[i])), sum, c)
	}
	if held := end - ts[last]; held > 0 {
		sum, c = kahansum.Inc(float64(vs[last]*scale*float64(held)), sum, c)
	}
	return sum, c
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
