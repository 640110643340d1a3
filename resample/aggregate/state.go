// Package aggregate has the aggregates of resample requests.
//
// Runs, the samples of one series in one bucket each, go in, and States of them come out: the parts
// that the request's aggregates read, a loop over all runs each. The states of a series are merged
// into those of its group, a loop over all buckets for each part. An aggregate is one Definition: its names, the parts it reads, and its result. Aggregates that read
// the same parts share them: count, sum and mean cost one sum.
//
//	          parts                      a Definition
//	run ──► Count Sum Extremes … ──► sum: {Sum}, mean: {Mean}, range: {Extremes} …
//	            ▲ merge
//	run ──► Count Sum Extremes …
//
// A part is one partForm: how it is made of runs, and how two of them merge. A definition may have
// a part of its Own besides, as custom ones do. The order of merges shows in the last bits, so
// merging is done in an order that does not depend on workers.
//
// Start with Library.Parse, Contents.Make and Contents.Merge.
package aggregate

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/frame"
)

// States are what is known of the samples of some buckets, column by column. Only the columns of the
// parts that they were made with are there.
type States struct {
	N                []float64   // Count
	Sum, C           []float64   // Sum: Kahan and Neumaier's, the sum and what it lacks; of one that is not finite, the mean
	Min, Max         []float64   // Least, Most: NaN where all values are
	First, Last      []float64   // Oldest, Newest
	FirstAt, LastAt  []float64   // OldestTime, NewestTime: ms
	Squares          []float64   // Squares: squared distances from the mean, added up
	Area, AreaC, Lap []float64   // Weighted: values times the ms that they held, and those ms; see areasOf
	Values           [][]float64 // Values: of each state
	Times            [][]int64   // Times: ms, of each of Values
	Own              [][]float64 // see Own: of each number a column

	grouped  bool        // see Contents.Grouped
	numbers  []float64   // memory of the columns
	held     []float64   // memory of Values, copied from the runs, since they may be sorted
	times    []int64     // memory of Times
	together frame.Group // runs that are added up side by side
	side     exact.Sums  // of these
}

// column is a column of numbers, and the part that it is of.
type column struct {
	of Parts
	is *[]float64
}

// columns are all columns of numbers but Own's.
func (s *States) columns() [13]column {
	return [...]column{
		{Count, &s.N}, {Sum, &s.Sum}, {Sum, &s.C}, {Least, &s.Min}, {Most, &s.Max},
		{Oldest, &s.First}, {Newest, &s.Last}, {OldestTime, &s.FirstAt}, {NewestTime, &s.LastAt},
		{Squares, &s.Squares}, {Weighted, &s.Area}, {Weighted, &s.AreaC}, {Weighted, &s.Lap},
	}
}

// Held is the number of values that states of runs refer to.
func (s *States) Held() int { return len(s.held) }

// Parts is a set of parts of States.
type Parts uint16

// The parts. A mean is made of the sum and the count.
const (
	Count Parts = 1 << iota
	Sum
	Mean
	Extremes
	Ends
	Squares
	Weighted
	Values
	Times // with the values, in the order of series: see States.InTime
	// Of the extremes cores make only the ones asked for; kernels, which know Extremes, make both.
	Least
	Most
	// The same of Ends, and the times by which states are merged.
	Oldest
	Newest
	OldestTime
	NewestTime

	// Merging are the parts that nothing but merging reads.
	Merging = OldestTime | NewestTime
)

// partForm is one part: what it reads besides, how it is made of runs, and how n states of o, from the
// given one on, merge into those of s from k on: see Contents.Merge.
type partForm struct {
	part  Parts
	name  string
	reads Parts
	of    func(s *States, in *Runs)
	merge func(s *States, k int, o *States, from, n int)
}

// partForms are all parts: each is merged before those that it reads, and made after them. Counts, which
// say where there are no samples yet, Contents.Merge merges last.
var partForms = []partForm{
	{Squares, "squares", Sum | Mean | Count, squaresOf, mergeSquares},
	{Mean, "mean", Sum | Count, nil, nil},
	{Sum, "sum", Count, sumsOf, mergeSums},
	{Count, "count", 0, countsOf, nil},
	{Extremes, "extremes", 0, nil, nil},
	{Least, "", Extremes, leastOf, mergeLeast},
	{Most, "", Extremes, mostOf, mergeMost},
	{Ends, "ends", 0, nil, nil},
	{Oldest, "", Ends | OldestTime, oldestOf, mergeOldest},
	{Newest, "", Ends | NewestTime, newestOf, mergeNewest},
	{Weighted, "weighted", 0, areasOf, mergeAreas},
	{Times, "times", Values, timesOf, mergeTimes},
	{Values, "values", 0, valuesOf, mergeValues},
}

// With is the parts and the parts that they read.
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
		if p&f.part != 0 && f.name != "" {
			names = append(names, f.name)
		}
	}
	return names
}

// mergeSums merges before the counts do. Where adding overflows, or something is not finite already,
// the mean of all says what the sum is: partial sums may have overflowed to either side.
func mergeSums(s *States, k int, o *States, from, n int) {
	sums, lost := o.Sum[from:from+n], o.C[from:from+n]
	added := exact.AddFinite(s.Sum[k:], s.C[k:], sums)
	comp := s.C[k:][:added]
	for i, c := range lost[:added] {
		comp[i] += c
	}
	for i := added; i < n; i++ {
		if sum, c := addSums(sums[i], lost[i], s.Sum[k+i], s.C[k+i]); finite(sum) {
			s.Sum[k+i], s.C[k+i] = sum, c
			continue
		}
		has, more := s.N[k+i], o.N[from+i]
		s.setSum(k+i, meanOfTwo(s.mean(k+i), has, o.mean(from+i), more), has+more)
	}
}

// addSums adds the compensated sum of another run to s's.
func addSums(o, oC, s, sC float64) (sum, c float64) {
	if sum, c = addFinite(o, s, sC); !finite(c) {
		sum, c = kahansum.Inc(o, s, sC)
	}
	return sum, c + oC
}

// setSum makes the sum of state k that of n values with the given mean.
func (s *States) setSum(k int, mean, n float64) {
	s.Sum[k], s.C[k] = float64(mean*n), 0
	if !finite(s.Sum[k]) {
		s.C[k] = mean
	}
}

// mean is the mean of a state that has Sum.
func (s *States) mean(k int) float64 {
	if !finite(s.Sum[k]) {
		return s.C[k]
	}
	return float64(s.Sum[k]/s.N[k]) + float64(s.C[k]/s.N[k])
}

// meanOfTwo is the mean of two means of weights a and b. Of finite ones it is finite.
func meanOfTwo(x, a, y, b float64) float64 {
	if a == 0 {
		return y
	}
	mean := float64(x*(a/(a+b))) + float64(y*(b/(a+b)))
	if finite(x) && finite(y) {
		return bounded(mean)
	}
	return mean
}

// bounded is v, or the largest number of its sign if v is infinite by rounding.
func bounded(v float64) float64 { return max(-math.MaxFloat64, min(v, math.MaxFloat64)) }

// finite reports whether v is neither NaN nor infinite.
func finite(v float64) bool { return v-v == 0 }

// mergeSquares is Chan, Golub and LeVeque's; it merges before the sums do. The distance of the two
// means is of twice the digits, since means may be large and close to each other.
func mergeSquares(s *States, k int, o *States, from, n int) {
	for ; n > 0; k, from, n = k+1, from+1, n-1 {
		a, b := s.N[k], o.N[from]
		if a == 0 {
			s.Squares[k] = o.Squares[from]
			continue
		}
		hiS, loS := s.longMean(k)
		hiO, loO := o.longMean(from)
		d := (hiO - hiS) + (loO - loS)
		s.Squares[k] += o.Squares[from] + float64(float64(d*d)*(a*b/(a+b)))
	}
}

// longMean is the mean as a sum of two numbers.
func (s *States) longMean(k int) (hi, lo float64) {
	sum, c, n := s.Sum[k], s.C[k], s.N[k]
	if !finite(sum) {
		return c, 0
	}
	hi = sum / n
	return hi, (math.FMA(-hi, n, sum) + c) / n
}

func mergeLeast(s *States, k int, o *States, from, n int) {
	mergeExtremes(s.N[k:], s.Min[k:], o.Min[from:from+n], 1)
}

func mergeMost(s *States, k int, o *States, from, n int) {
	mergeExtremes(s.N[k:], s.Max[k:], o.Max[from:from+n], -1)
}

func mergeExtremes(has, to, more []float64, sign float64) {
	for i, v := range more {
		if has[i] == 0 || v*sign < to[i]*sign || to[i] != to[i] {
			to[i] = v
		}
	}
}

func mergeOldest(s *States, k int, o *States, from, n int) {
	mergeEnds(s.N[k:], s.First[k:], s.FirstAt[k:], o.First[from:from+n], o.FirstAt[from:], 1)
}

func mergeNewest(s *States, k int, o *States, from, n int) {
	mergeEnds(s.N[k:], s.Last[k:], s.LastAt[k:], o.Last[from:from+n], o.LastAt[from:], -1)
}

func mergeEnds(has, to, at, more, moreAt []float64, sign float64) {
	for i, v := range more {
		if t := moreAt[i]; has[i] == 0 || t*sign < at[i]*sign {
			to[i], at[i] = v, t
		}
	}
}

func mergeValues(s *States, k int, o *States, from, n int) {
	for i, vs := range o.Values[from : from+n] {
		s.Values[k+i] = append(s.Values[k+i], vs...)
	}
}

func mergeTimes(s *States, k int, o *States, from, n int) {
	for i, ts := range o.Times[from : from+n] {
		s.Times[k+i] = append(s.Times[k+i], ts...)
	}
}
