package aggregate

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/resample/bucket"
)

// Own is the part of states that one definition alone reads: some numbers, States.Own. It is safe
// for concurrent use.
type Own interface {
	// Size is how many numbers a state has.
	Size() int
	// Make makes the numbers of the states of runs: those of state k of run k.
	Make(states *States, in *Runs)
	// Merge merges the numbers of n states of o, from the given one on, into those of s from k on.
	Merge(s *States, k int, o *States, from, n int)
	// Bytes is the memory of a goroutine that makes or merges states.
	Bytes() int64
}

// Runs are runs of a series, in order: each is at least one sample, none a stale marker.
type Runs struct {
	Times  []int64 // of the series, ms
	Values []float64
	Runs   []bucket.Run
	Grid   *bucket.Grid
}

// values are those of run k.
func (in *Runs) values(k int) []float64 { return in.Values[in.Runs[k].First:in.Runs[k].End] }

// Contents are what states are made of.
type Contents struct {
	Parts
	Own Own // nil for none
}

// ownSize is how many numbers Own has.
func (c *Contents) ownSize() int {
	if c.Own == nil {
		return 0
	}
	return c.Own.Size()
}

var noStates States

// Bytes is the memory of a state, besides what it refers to.
func (c *Contents) Bytes() int64 {
	n := c.ownSize()
	for _, column := range noStates.columns() {
		n += bits.OnesCount16(uint16(c.Parts & column.of))
	}
	return 8 * int64(n+3*bits.OnesCount16(uint16(c.Parts&(Values|Times))))
}

// Begin has s be n states, in the memory that it has. States of new memory have no samples.
func (c *Contents) Begin(s *States, n int) {
	columns, all := s.columns(), c.ownSize()
	for i := range columns {
		if *columns[i].is = nil; c.Parts&columns[i].of != 0 {
			all++
		}
	}
	s.numbers = slices.Grow(s.numbers[:0], n*all)[:n*all]
	rest := s.numbers
	column := func() (cut []float64) {
		cut, rest = rest[:n:n], rest[n:]
		return cut
	}
	for i := range columns {
		if c.Parts&columns[i].of != 0 {
			*columns[i].is = column()
		}
	}
	s.Own = s.Own[:0]
	for range c.ownSize() {
		s.Own = append(s.Own, column())
	}
	s.Values, s.Times = s.Values[:0], s.Times[:0]
	if c.Parts&Values != 0 {
		s.Values = slices.Grow(s.Values, n)[:n]
	}
	if c.Parts&Times != 0 {
		s.Times = slices.Grow(s.Times, n)[:n]
	}
	s.grouped = false
}

// Make has s be the states of runs, in the memory that it has.
func (c *Contents) Make(s *States, in *Runs) {
	c.Begin(s, len(in.Runs))
	for _, f := range slices.Backward(partForms) {
		if c.Parts&f.part != 0 && f.of != nil {
			f.of(s, in)
		}
	}
	if c.Own != nil {
		c.Own.Make(s, in)
	}
}

// MakeSingle has s be the states of values that are aggregated again: each is a run at time 0 of a
// bucket of its own. They refer to the values.
func (c *Contents) MakeSingle(s *States, values []float64) {
	n := len(values)
	c.Begin(s, n)
	dense.Fill(s.N, 1)
	if c.Parts&Sum != 0 {
		s.Sum = values
		clear(s.C)
		for k, v := range values {
			if !finite(v) {
				s.C[k] = v
			}
		}
	}
	s.Min, s.Max = values, values
	for k := range s.Squares {
		s.Squares[k] = values[k] - values[k] // NaN where the value is not finite
	}
	for k := range s.Values {
		s.Values[k] = values[k : k+1 : k+1]
	}
	for k := range s.Times {
		s.Times[k] = oneBucket.Starts
	}
	if c.Own != nil {
		in := Runs{Times: make([]int64, n), Values: values, Runs: make([]bucket.Run, n), Grid: oneBucket}
		for k := range in.Runs {
			in.Runs[k] = bucket.Run{First: int32(k), End: int32(k + 1)}
		}
		c.Own.Make(s, &in)
	}
}

var oneBucket = &bucket.Grid{Starts: []int64{0}, Ends: []int64{1}}

// Merge merges states of o, from the given one on, into states of s: one into each of to, in order,
// which may have no samples yet and be new. Those of o are of series that come later: of runs that
// have samples at one time, s's come first.
func (c *Contents) Merge(s *States, to []int32, o *States, from int) {
	for n := 0; len(to) > 0; to, from = to[n:], from+n { // states that follow one another at once
		if n = len(to); int(to[n-1]-to[0]) != n-1 {
			for n = 1; to[n] == to[n-1]+1; n++ {
			}
		}
		c.merge(s, int(to[0]), o, from, n)
	}
}

func (c *Contents) merge(s *States, k int, o *States, from, n int) {
	if c.Own != nil {
		c.Own.Merge(s, k, o, from, n)
		for i := range n {
			if s.N[k+i] > 0 {
				continue
			}
			for number := range s.Own {
				s.Own[number][k+i] = o.Own[number][from+i]
			}
		}
	}
	for _, f := range partForms {
		if c.Parts&f.part != 0 && f.merge != nil {
			f.merge(s, k, o, from, n)
		}
	}
	counts := s.N[k:][:n]
	for i, more := range o.N[from:][:n] {
		counts[i] += more
	}
}

// Grouped has states, of runs or of none, be those of groups. Only Prometheus's sum of a run is infinite
// or NaN where partial sums overflowed.
func (c *Contents) Grouped(s *States) {
	s.grouped = true
	for k, sum := range s.Sum {
		if !finite(sum) {
			s.setSum(k, s.C[k], s.N[k])
		}
	}
}

// InTime puts Times and Values of state k in the order of time. Samples at one time stay in the order
// of their series.
func (s *States) InTime(k int32) {
	times, values := s.Times[k], s.Values[k]
	if slices.IsSorted(times) {
		return
	}
	type sample struct {
		t int64
		v float64
	}
	in := make([]sample, len(times))
	for i, t := range times {
		in[i] = sample{t, values[i]}
	}
	slices.SortStableFunc(in, func(a, b sample) int { return cmp.Compare(a.t, b.t) })
	for i, x := range in {
		times[i], values[i] = x.t, x.v
	}
}
