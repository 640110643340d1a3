package aggregate

import (
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/resample/bucket"
)

// hasEight says whether sumEight and visitEight can be called.
var hasEight = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ

// eight is what sumEight and visitEight make of up to eight runs: a lane a run.
type eight struct {
	which          uint8 // lanes that have a run
	finite         uint8 // lanes in which everything has the bits that sumOf or visit gives
	most           int   // values of a run, above 0
	sum, c, mean   [lanes]float64
	least, largest [lanes]float64
	squares        [lanes]float64
}

// sumEight makes sums and means of runs of values.
//
//go:noescape
func sumEight(values *float64, runs *bucket.Run, e *eight)

// visitEight makes all that eight has.
//
//go:noescape
func visitEight(values *float64, runs *bucket.Run, e *eight)

// of makes the parts Sum, Mean, Extremes and Squares of up to eight runs, as far as parts has
// them. It returns the runs whose states have them, a bit a run.
func (e *eight) of(parts Parts, states []State, values []float64, runs []bucket.Run) uint8 {
	states = states[:min(len(states), lanes)] // so that no index is checked
	all := 0
	e.most = 0
	for _, run := range runs {
		n := int(run.End - run.First)
		e.most, all = max(e.most, n), all+n
	}
	e.which = 1<<len(runs) - 1
	if !hasEight || all < 2*e.most { // all lanes take as long as the longest
		return 0
	}
	if parts&visited == Sum {
		sumEight(&values[0], &runs[0], e)
		for i := range states {
			s := &states[i]
			s.Sum, s.C, s.Mean = e.sum[i], e.c[i], e.mean[i]
		}
		return e.finite
	}
	visitEight(&values[0], &runs[0], e)
	for i := range states {
		s := &states[i]
		s.Sum, s.C, s.Mean = e.sum[i], e.c[i], e.mean[i]
		s.Min, s.Max, s.Squares = e.least[i], e.largest[i], e.squares[i]
	}
	return e.finite
}
