// Package aggregate has the aggregates of resample requests.
//
// A run, the samples of one series in one bucket, goes in, and a State of it comes out: the parts
// that the request's aggregates read, made in one visit. States of several runs are merged. An
// aggregate is one Definition: its names, the parts it reads, and its result. Aggregates that read
// the same parts share them: count, sum and mean cost one sum.
//
//	          parts                      a Definition
//	run ──► Count Sum Extremes … ──► sum: {Sum}, mean: {Mean}, range: {Extremes} …
//	            ▲ merge
//	run ──► Count Sum Extremes …
//
// A part is one partForm: how it is made of a run, and how two of them merge. A definition may have
// a part of its Own besides, as custom ones do. The order of merges shows in the last bits, so
// whoever merges does so in an order that does not depend on workers.
//
// Start with Library.Parse, Contents.Make and Contents.Merge.
package aggregate

import (
	"math"
	"math/bits"

	"github.com/prometheus/prometheus/util/kahansum"
)

// State is what is known of the samples of a bucket. Only the fields of the parts that it was
// made with mean something.
type State struct {
	N                int64     // Count
	grouped          bool      // see Contents.Begin
	Sum, C           float64   // Sum: Kahan and Neumaier's, the sum and what it lacks; of one that is not finite, the mean
	Mean             float64   // Mean
	Min, Max         float64   // Extremes: NaN where all values are
	First, Last      float64   // Ends
	FirstAt, LastAt  int64     // Ends: ms
	Squares          float64   // Squares: squared distances from the mean, added up
	Area, AreaC, Lap float64   // Weighted: values times the ms that they held, and those ms; see areasOf
	Values           []float64 // Values
	Times            []int64   // Times: ms, of each of Values
	Own              []float64 // see Own
}

// Parts is a set of parts of a State.
type Parts uint16

// The parts.
const (
	Count Parts = 1 << iota
	Sum
	Mean
	Extremes
	Ends
	Squares
	Weighted
	Values
	Times // with the values, in the order of series: see State.InTime
)

// partForm is one part: what it reads besides, how it is made of each of some runs, and how another
// one, o, that comes later in the order of series, merges into s. When parts merge, s still has the
// old values of parts behind it in the table.
type partForm struct {
	part  Parts
	name  string
	reads Parts
	of    func(states []State, in *Runs, m *Memory)
	merge func(s, o *State)
}

// partForms are all parts.
var partForms = []partForm{
	{Squares, "squares", Sum | Mean | Count, squaresOf, mergeSquares},
	{Mean, "mean", Sum | Count, meansOf, mergeMeans},
	{Sum, "sum", Count, sumsOf, mergeSums},
	{Count, "count", 0, countsOf, func(s, o *State) { s.N += o.N }},
	{Extremes, "extremes", 0, extremesOf, mergeExtremes},
	{Ends, "ends", 0, endsOf, mergeEnds},
	{Weighted, "weighted", 0, areasOf, mergeAreas},
	{Times, "times", Values, timesOf, func(s, o *State) { s.Times = append(s.Times, o.Times...) }},
	{Values, "values", 0, valuesOf, func(s, o *State) { s.Values = append(s.Values, o.Values...) }},
}

// formOf are the partForms by the number of their bit: parts come after those that they read, and
// merge before those.
var formOf = func() (by [16]*partForm) {
	for i := range partForms {
		by[bits.TrailingZeros16(uint16(partForms[i].part))] = &partForms[i]
	}
	return by
}()

// With is the parts with those that they read.
func (p Parts) With() Parts {
	for _, f := range partForms {
		if p&f.part != 0 {
			p |= f.reads
		}
	}
	return p
}

// PartNames are the names of parts.
func PartNames(p Parts) (names []string) {
	for _, f := range partForms {
		if p&f.part != 0 {
			names = append(names, f.name)
		}
	}
	return names
}

// Merge merges o, the state of another run with the same parts, into s. Of runs that have samples
// at one time, s's come first.
func (p Parts) Merge(s, o *State) {
	for p != 0 {
		last := bits.Len16(uint16(p)) - 1
		formOf[last].merge(s, o)
		p &^= 1 << last
	}
}

// addSums adds the compensated sum of another run to s's.
func addSums(o, oC, s, sC float64) (sum, c float64) {
	sum, c = kahansum.Inc(o, s, sC)
	return sum, c + oC
}

// mergeSums merges before the counts do. Where adding overflows, or something is not finite already,
// the mean of all says what the sum is: partial sums may have overflowed to either side.
func mergeSums(s, o *State) {
	sum, c := addSums(o.Sum, o.C, s.Sum, s.C)
	if finite(sum) {
		s.Sum, s.C = sum, c
		return
	}
	s.setSum(meanOfTwo(s.mean(), float64(s.N), o.mean(), float64(o.N)), s.N+o.N)
}

// setSum makes the sum that of n values with the given mean.
func (s *State) setSum(mean float64, n int64) {
	s.Sum, s.C = float64(mean*float64(n)), 0
	if !finite(s.Sum) {
		s.C = mean
	}
}

// mean is the mean of a state that has Sum.
func (s *State) mean() float64 {
	if !finite(s.Sum) {
		return s.C
	}
	n := float64(s.N)
	return float64(s.Sum/n) + float64(s.C/n)
}

// meanOfTwo is the mean of two means of weights a and b. Of finite ones it is finite.
func meanOfTwo(x, a, y, b float64) float64 {
	mean := float64(x*(a/(a+b))) + float64(y*(b/(a+b)))
	if finite(x) && finite(y) {
		return bounded(mean)
	}
	return mean
}

// bounded is v, or the largest number of its sign if v is infinite by rounding.
func bounded(v float64) float64 { return max(-math.MaxFloat64, min(v, math.MaxFloat64)) }

// total is Prometheus's sum.
func (s *State) total() float64 {
	if math.IsInf(s.Sum, 0) {
		return s.Sum
	}
	return s.Sum + s.C
}

// finite reports whether v is neither NaN nor infinite.
func finite(v float64) bool { return v-v == 0 }

// mergeMeans merges before the sums and counts do.
func mergeMeans(s, o *State) {
	all := State{N: s.N, Sum: s.Sum, C: s.C}
	mergeSums(&all, o)
	all.N += o.N
	s.Mean = all.mean()
}

// mergeSquares is Chan, Golub and LeVeque's; it merges before the means do. The distance of the two
// means is of twice the digits, since means may be large and close to each other.
func mergeSquares(s, o *State) {
	a, b := float64(s.N), float64(o.N)
	hiS, loS := s.longMean()
	hiO, loO := o.longMean()
	d := (hiO - hiS) + (loO - loS)
	s.Squares += o.Squares + float64(float64(d*d)*(a*b/(a+b)))
}

// longMean is the mean as a sum of two numbers.
func (s *State) longMean() (hi, lo float64) {
	if !finite(s.Sum) {
		return s.C, 0
	}
	n := float64(s.N)
	hi = s.Sum / n
	return hi, (math.FMA(-hi, n, s.Sum) + s.C) / n
}

func mergeExtremes(s, o *State) {
	if o.Min < s.Min || s.Min != s.Min {
		s.Min = o.Min
	}
	if o.Max > s.Max || s.Max != s.Max {
		s.Max = o.Max
	}
}

func mergeEnds(s, o *State) {
	if o.FirstAt < s.FirstAt {
		s.First, s.FirstAt = o.First, o.FirstAt
	}
	if o.LastAt > s.LastAt {
		s.Last, s.LastAt = o.Last, o.LastAt
	}
}
