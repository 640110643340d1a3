package operator

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// Series flow into a sink, which here makes rows of those with a value.
func ExampleLoop() {
	q := NewQuery(context.Background(), plan.NewGrid(0, 3000, 1000), 2)
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

// Batches come in the order of their series, whoever fills them, and no more of them once
// a series could not be filled or the query has ended.
func TestLoopOrder(t *testing.T) {
	const series, steps = 5000, 200
	failed := errors.New("series 3000")
	for _, workers := range []int{1, 4} {
		for at, want := range map[int]error{-1: nil, 3000: failed} {
			q, o := NewQuery(t.Context(), plan.NewGrid(0, (steps-1)*1000, 1000), workers), &order{}
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
	q, o := NewQuery(ctx, plan.NewGrid(0, 1000, 1000), 2), &order{}
	require.Error(t, feed(q, o, series, func(int, int, dense.Row, *dense.Counts) error { return nil }))
	require.Zero(t, o.n)
}

// Steps are split into whole words of the bitmap, of which each is in one range.
func TestSplitSteps(t *testing.T) {
	for _, workers := range []int{1, 3, 16} {
		q := NewQuery(t.Context(), plan.NewGrid(0, 999_000, 1000), workers)
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
}
