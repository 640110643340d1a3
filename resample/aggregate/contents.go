package aggregate

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/resample/bucket"
)

// Own is the part of a state that one definition alone reads: some numbers, State.Own. It is safe
// for concurrent use.
type Own interface {
	// Size is how many numbers a state has.
	Size() int
	// Make makes the numbers of the states of runs: of states[k] those of run k.
	Make(states []State, in *Runs)
	// Merge merges o, the numbers of a run that comes later in the order of series, into s.
	Merge(s, o []float64)
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

// OwnSize is how many numbers Own has.
func (c *Contents) OwnSize() int {
	if c.Own == nil {
		return 0
	}
	return c.Own.Size()
}

// Memory is what states refer to. It is used again for the next states.
type Memory struct {
	Values []float64 // copied from the runs, since they may be sorted
	times  []int64
	own    []float64
	side   exact.Sums // of runs side by side
}

// Make returns the states of runs, in the memory of states. They refer to m.
func (c *Contents) Make(states []State, in *Runs, m *Memory) []State {
	n, size := len(in.Runs), c.OwnSize()
	states = slices.Grow(states[:0], n)[:n]
	for rest := c.Parts; rest != 0; rest &= rest - 1 {
		formOf[bits.TrailingZeros16(uint16(rest))].of(states, in, m)
	}
	for k := range states {
		states[k].grouped = false
	}
	if c.Own == nil {
		return states
	}
	m.own = slices.Grow(m.own[:0], n*size)[:n*size]
	for k := range states {
		states[k].Own = m.own[k*size : (k+1)*size : (k+1)*size]
	}
	c.Own.Make(states, in)
	return states
}

// Merge merges o, the state of another run with the same contents, into s. Of runs that have
// samples at one time, s's come first.
func (c *Contents) Merge(s, o *State) {
	c.Parts.Merge(s, o)
	if c.Own != nil {
		c.Own.Merge(s.Own, o.Own)
	}
}

// Begin makes the states of runs those of groups with one run so far.
func (c *Contents) Begin(states []State) {
	for k := range states {
		c.begin(&states[k])
	}
}

// begin is Begin of one state. Only Prometheus's sum of a run is infinite or NaN where partial sums
// overflowed.
func (c *Contents) begin(s *State) {
	if s.grouped = true; c.Parts&Sum == 0 || finite(s.Sum) {
		return
	}
	if s.setSum(s.C, s.N); c.Parts&Mean != 0 {
		s.Mean = s.mean()
	}
}

// Keep begins a group in s with a copy of o, and of what o refers to. own has room for its numbers.
func (c *Contents) Keep(s, o *State, own []float64) {
	*s = *o
	c.begin(s)
	s.Values, s.Times, s.Own = slices.Clone(o.Values), slices.Clone(o.Times), own
	copy(own, o.Own)
}

// InTime puts Times and Values in the order of time. Samples at one time stay in the order of
// their series.
func (s *State) InTime() {
	if slices.IsSorted(s.Times) {
		return
	}
	type sample struct {
		t int64
		v float64
	}
	in := make([]sample, len(s.Times))
	for i, t := range s.Times {
		in[i] = sample{t, s.Values[i]}
	}
	slices.SortStableFunc(in, func(a, b sample) int { return cmp.Compare(a.t, b.t) })
	for i, x := range in {
		s.Times[i], s.Values[i] = x.t, x.v
	}
}
