package aggregate

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
	"github.com/promwarp/promwarp/resample/bucket"
)

// This file is how parts are made of runs: each is a loop over all of these.

func countsOf(s *States, in *Runs) {
	for k, run := range in.Runs {
		s.N[k] = float64(run.End - run.First)
	}
}

// Each of these two has a loop for values and one for times: a core waits for more values at once then.

func oldestOf(s *States, in *Runs) {
	for k, run := range in.Runs {
		s.First[k] = in.Values[run.First]
	}
	for k := range s.FirstAt {
		s.FirstAt[k] = float64(in.Times[in.Runs[k].First])
	}
}

func newestOf(s *States, in *Runs) {
	for k, run := range in.Runs {
		s.Last[k] = in.Values[run.End-1]
	}
	for k := range s.LastAt {
		s.LastAt[k] = float64(in.Times[in.Runs[k].End-1])
	}
}

func valuesOf(s *States, in *Runs) { s.held = copies(s.Values, s.held, in.Values, in.Runs) }

func timesOf(s *States, in *Runs) { s.times = copies(s.Times, s.times, in.Times, in.Runs) }

// copies puts copies of what runs have of a series into of, in the given memory, which it returns.
func copies[T any](of [][]T, memory, series []T, runs []bucket.Run) []T {
	memory = memory[:0]
	for _, run := range runs {
		memory = append(memory, series[run.First:run.End]...)
	}
	at := int32(0)
	for k, run := range runs {
		end := at + run.End - run.First
		of[k], at = memory[at:end:end], end
	}
	return memory
}

// sumsOf makes Prometheus's sums, of neighbouring runs side by side.
func sumsOf(s *States, in *Runs) {
	sums := func(g *frame.Group) {
		windows := g.Windows(in.Values)
		s.side.AddAbreast(&windows, g.Common)
		for i, k := range g.Steps[:g.N] {
			vs := windows[i]
			sum, c := s.side.Of(0, i)
			if g.Common < len(vs) {
				sum, c = exact.Accumulate(vs[g.Common:], sum, c)
			}
			if !finite(sum) || !finite(c) {
				if sum, c = exact.Accumulate(vs, 0, 0); !finite(sum) {
					c = exact.Mean(vs)
				}
			}
			s.Sum[k], s.C[k] = sum, c
		}
	}
	for k, run := range in.Runs {
		if s.together.Add(int32(k), run.First, run.End) {
			s.together.Finish(sums)
		}
	}
	s.together.Finish(sums)
}

// block is the number of squares that are added up before they are added to a compensated sum.
const block = 32

// squaresOf adds up squared distances from the first value of a run, of which the square of the
// mean's own distance is taken off: a run that stays the same has none at all. The mean is at most
// as many standard deviations away as the root of the run's length, which bounds what that loses.
func squaresOf(s *States, in *Runs) {
	for k := range in.Runs {
		vs := in.values(k)
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
		squares := two - float64(float64(one*one)/n) + twoC
		switch {
		case squares < 0:
			squares = 0
		case !finite(two) && finite(s.mean(k)):
			squares = two // of finite values that are too large to be squared
		}
		s.Squares[k] = squares
	}
}

// addFinite adds v to sum, and the rounding error to c. Knuth's formula finds the error that
// Neumaier's does without a branch. If something overflows, c is NaN in the end.
func addFinite(v, sum, c float64) (float64, float64) {
	t := sum + v
	b := t - sum
	return t, c + ((sum - (t - b)) + (v - b))
}

func leastOf(s *States, in *Runs) { extremesOf(s.Min, in, true) }

func mostOf(s *States, in *Runs) { extremesOf(s.Max, in, false) }

// extremesOf fills out with the smallest value of each run, or the largest one: of equal ones the first,
// and NaN only where all are.
func extremesOf(out []float64, in *Runs, smallest bool) {
	for k, run := range in.Runs {
		out[k] = exact.Extreme(in.Values[run.First:run.End], smallest)
	}
	for k, v := range out {
		if v == v && v != 0 {
			continue
		}
		vs := in.values(k)
		for len(vs) > 1 && vs[0] != vs[0] {
			vs = vs[1:]
		}
		if out[k] = exact.Extreme(vs, smallest); out[k] == 0 {
			out[k] = vs[slices.Index(vs, 0)]
		}
	}
}

// areasOf has each value hold until the next sample, the last one until the window ends. Where the area
// is not finite, AreaC is the mean. A run of one sample at the end of its window holds for no time: its
// Area is that value and its Lap -1, and it counts only in a group where no run holds for any.
func areasOf(s *States, in *Runs) {
	for k, run := range in.Runs {
		s.Area[k], s.AreaC[k], s.Lap[k] = areaOf(in.Times[run.First:run.End], in.values(k), in.Grid.Closes(run.Bucket))
	}
}

func areaOf(ts []int64, vs []float64, end int64) (sum, c, lap float64) {
	if lap = float64(end - ts[0]); lap == 0 {
		if sum = vs[0]; !finite(sum) {
			c = sum
		}
		return sum, c, -1
	}
	if sum, c = area(ts, vs, end, 1); finite(sum) {
		return sum, c, lap
	}
	const scale = 0x1p-64 // so that no area of finite values overflows
	scaled, scaledC := area(ts, vs, end, scale)
	if c = (scaled + scaledC) / lap / scale; finite(scaled) {
		c = bounded(c)
	}
	return sum, c, lap
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

func mergeAreas(s *States, k int, o *States, from, n int) {
	for ; n > 0; k, from, n = k+1, from+1, n-1 {
		lap, more := s.Lap[k], o.Lap[from]
		if lap > 0 != (more > 0) { // the other one holds for no time
			if more > 0 {
				s.Area[k], s.AreaC[k], s.Lap[k] = o.Area[from], o.AreaC[from], more
			}
			continue
		}
		area, c := addSums(o.Area[from], o.AreaC[from], s.Area[k], s.AreaC[k])
		if !finite(area) {
			c = meanOfTwo(s.weightedMean(k), lap, o.weightedMean(from), more)
		}
		s.Area[k], s.AreaC[k], s.Lap[k] = area, c, lap+more
	}
}

func (s *States) weightedMean(k int) float64 {
	if !finite(s.Area[k]) {
		return s.AreaC[k]
	}
	return (s.Area[k] + s.AreaC[k]) / math.Abs(s.Lap[k])
}
