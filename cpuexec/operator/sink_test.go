package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// newQuery is a query without limits that is evaluated by a number of goroutines.
func newQuery(ctx context.Context, g plan.Grid, workers int) *Query {
	return &Query{Context: ctx, Grid: g, Workers: workers, Matrix: &plan.Matrix{}}
}

// Series flow into a sink, which here makes rows of those with a value.
func ExampleLoop() {
	q := newQuery(context.Background(), plan.NewGrid(0, 3000, 1000), 2)
	c := &Collector{Labels: func(i int) labels.Labels { return labels.FromStrings("n", fmt.Sprint(i)) }}
	err := feed(q, c, 3, func(_, i int, out dense.Row, counts *dense.Counts) error {
		for k := range i {
			out.Set(k, float64(10*i+k))
		}
		counts.Points = i
		return nil
	})
	for _, row := range c.Rows {
		fmt.Println(row.Labels, row.Values, row.Runs)
	}
	fmt.Println(err)
	// Output:
	// {n="1"} [10] [{0 1}]
	// {n="2"} [20 21] [{0 2}]
	// <nil>
}

// feed runs a loop without maps.
func feed(q *Query, out Sink, n int, fill func(worker, i int, out dense.Row, c *dense.Counts) error) error {
	return (&Loop{Query: q, Out: out, N: n, Fill: fill}).Run()
}

// order is a sink that notes which series it is given.
type order struct{ n int }

func (o *order) Consume(_ *Query, b *Batch) {
	if b.Lo == o.n {
		o.n += b.N
	}
}

// Batches come in the order of their series, whichever goroutine fills them, and no more of them once
// a series could not be filled or the query has ended.
func TestLoopOrder(t *testing.T) {
	const series, steps = 5000, 200
	failed := errors.New("series 3000")
	for _, workers := range []int{1, 4} {
		for at, want := range map[int]error{-1: nil, 3000: failed} {
			q, o := newQuery(t.Context(), plan.NewGrid(0, (steps-1)*1000, 1000), workers), &order{}
			err := feed(q, o, series, func(worker, i int, _ dense.Row, _ *dense.Counts) error {
				if worker >= workers {
					return errors.New("a worker too many")
				}
				if i == at {
					return failed
				}
				return nil
			})
			require.Equal(t, want, err)
			if at < 0 {
				require.Equal(t, series, o.n)
			} else {
				require.LessOrEqual(t, o.n, at)
				require.Greater(t, o.n, at-1024)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q, o := newQuery(ctx, plan.NewGrid(0, 1000, 1000), 2), &order{}
	require.Error(t, feed(q, o, series, func(int, int, dense.Row, *dense.Counts) error { return nil }))
	require.Zero(t, o.n)
}

// Steps are split into whole words of the bitmap, of which each is in one range.
func TestSplitSteps(t *testing.T) {
	for _, workers := range []int{1, 3, 16} {
		q := newQuery(t.Context(), plan.NewGrid(0, 999_000, 1000), workers)
		b, free, err := q.NewBatch(100, workers)
		require.NoError(t, err)
		b.N = len(b.Counts)
		for i := range b.Counts {
			b.Counts[i] = dense.Counts{Mapped: b.Steps}
		}
		seen := make([]int, b.Words) // by a goroutine each
		q.SplitSteps(b, func(w0, w1 int) {
			for w := w0; w < w1; w++ {
				seen[w]++
			}
		})
		for w, n := range seen {
			require.Equal(t, 1, n, "word %d", w)
		}
		const groups = 7
		cells := make([]int, groups*b.Words) // by a goroutine each
		q.SplitGroups(b, groups, func(part, parts, w0, w1 int) {
			for g := part; g < groups; g += parts {
				for w := w0; w < w1; w++ {
					cells[g*b.Words+w]++
				}
			}
		})
		for c, n := range cells {
			require.Equal(t, 1, n, "word %d of group %d", c%b.Words, c/b.Words)
		}
		free()
	}
}

// The limit is on the points so far and the samples of one window beside them.
func TestSampleLimit(t *testing.T) {
	l := SampleLimit{Max: 100, Window: true, Held: 10}
	require.True(t, l.Add(dense.Counts{Points: 20, MaxWindow: 70, LastWindow: 5}))
	require.Equal(t, 80, l.Peak)
	require.True(t, l.Add(dense.Counts{Points: 20, MaxWindow: 50, LastWindow: 50}), "30 held, 50 in the last window and 20 points")
	require.Equal(t, 100, l.Peak)
	require.False(t, l.Add(dense.Counts{Points: 20, MaxWindow: 51}))

	first, next := SampleLimit{Max: 100, Window: true, Held: 10}, SampleLimit{Window: true}
	require.True(t, first.Add(dense.Counts{Points: 20, MaxWindow: 70, LastWindow: 5}))
	next.Add(dense.Counts{Points: 20, MaxWindow: 50, LastWindow: 50})
	require.True(t, first.Append(next))
	require.Equal(t, 100, first.Peak)
	next.Add(dense.Counts{MaxWindow: 51})
	require.False(t, first.Append(next))
}

// inParts is a sink of groups that notes at each word of a group's steps which series were added.
type inParts struct {
	order
	of    []int32
	words int
	added [][]int32      // words a group
	adds  []atomic.Int32 // who is adding there
	wrong atomic.Bool    // two were, or a row held another series' values
	parts atomic.Bool    // less than all steps were added at once
}

func (s *inParts) GroupOf() []int32 { return s.of }

func (s *inParts) AddSteps(i int32, in dense.Row, w0, w1 int) {
	if w1-w0 < s.words {
		s.parts.Store(true)
	}
	for w := w0; w < w1; w++ {
		at := int(s.of[i])*s.words + w
		if s.adds[at].Add(1) > 1 || in.Values[w<<6] != float64(i) {
			s.wrong.Store(true)
		}
		s.added[at] = append(s.added[at], i)
		s.adds[at].Add(-1)
	}
}

// Series are added to each part of their group in order, each once, however long they take to
// fill and which goroutine fills them.
func TestTurns(t *testing.T) {
	for _, c := range []struct {
		name                   string
		groups, steps, workers int
		parts                  bool
	}{
		{"one group", 1, 1441, 16, true},
		{"one group of few steps", 1, 70, 16, false},
		{"one group, few workers", 1, 1441, 2, false},
		{"four groups", 4, 1441, 16, true},
		{"many groups", 40, 1441, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			const series = 3000
			q := newQuery(t.Context(), plan.NewGrid(0, int64(c.steps-1)*1000, 1000), c.workers)
			seed := rand.Uint64()
			t.Log("seed", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			s := &inParts{of: make([]int32, series), words: (c.steps + 63) / 64}
			s.added, s.adds = make([][]int32, c.groups*s.words), make([]atomic.Int32, c.groups*s.words)
			want := make([][]int32, c.groups)
			pauses := make([]int, series)
			for i := range s.of {
				g := int32(r.IntN(c.groups))
				s.of[i], pauses[i] = g, r.IntN(4)
				if i%7 != 0 {
					want[g] = append(want[g], int32(i))
				}
			}
			require.NoError(t, feed(q, s, series, func(_, i int, out dense.Row, counts *dense.Counts) error {
				for range pauses[i] {
					runtime.Gosched()
				}
				if i%7 == 0 { // without a value, and not added
					return nil
				}
				for k := range out.Values {
					out.Set(k, float64(i))
				}
				counts.Points = c.steps
				return nil
			}))
			require.False(t, s.wrong.Load())
			require.Equal(t, c.parts, s.parts.Load())
			for at, got := range s.added {
				require.Equal(t, want[at/s.words], got, "word %d of group %d", at%s.words, at/s.words)
			}
		})
	}
}

// Where one series cannot be filled the others' workers do not wait for it.
func TestTurnsFail(t *testing.T) {
	const series, steps = 3000, 1441
	q := newQuery(t.Context(), plan.NewGrid(0, (steps-1)*1000, 1000), 8)
	s := &inParts{of: make([]int32, series), words: (steps + 63) / 64}
	s.added, s.adds = make([][]int32, s.words), make([]atomic.Int32, s.words)
	failed := errors.New("series 100")
	err := feed(q, s, series, func(_, i int, out dense.Row, counts *dense.Counts) error {
		if i == 100 {
			return failed
		}
		for k := range out.Values {
			out.Set(k, float64(i))
		}
		counts.Points = steps
		return nil
	})
	require.Equal(t, failed, err)
	for _, got := range s.added {
		require.LessOrEqual(t, len(got), 100)
	}
}

// TestGroupEnds: grouping ends soon after its context.
func TestGroupEnds(t *testing.T) {
	const series = 100_000
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := Group(ctx, &plan.Aggregate{Grouping: []string{"a"}}, series, func(i int) labels.Labels {
		return labels.FromStrings("a", fmt.Sprint(i))
	})
	require.Len(t, g.Of, series)
	require.NotEmpty(t, g.Labels)
	require.Less(t, len(g.Labels), series/2)
}
