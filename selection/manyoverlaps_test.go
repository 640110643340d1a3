package selection

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// piled returns a builder with n chunks of one series, of 120 samples each, in
// which at one time there is a sample of most of them.
func piled(t testing.TB, n int) *Builder {
	b := NewBuilder(0)
	b.Series(name(0))
	step := int64(n)
	data := make([]int64, 120)
	for k := range int64(n) {
		for i := range data {
			data[i] = k + int64(i)*step
		}
		require.NoError(t, b.Floats(data, make([]float64, len(data))))
	}
	return b
}

// TestManyOverlapsEndInTime: thousands of chunks of one series that all overlap take no longer
// than the time that there is for them.
func TestManyOverlapsEndInTime(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		name string
		run  func(context.Context) (*Selection, error)
	}{
		{"as they come", func(ctx context.Context) (*Selection, error) { return piled(t, n).Within(ctx).Finish() }},
		{"joined", func(ctx context.Context) (*Selection, error) { return Join(ctx, unmerged(t, n), unmerged(t, n)) }},
		{"of two sources", func(ctx context.Context) (*Selection, error) { return Merge(ctx, spread(t, n, 0), spread(t, n, 121)) }},
	} {
		for _, limit := range []time.Duration{time.Millisecond, 300 * time.Millisecond} {
			t.Run(fmt.Sprint(c.name, " ", limit), func(t *testing.T) {
				var late []time.Duration // a busy machine may hold up one attempt
				for len(late) < 3 {
					after, err := endedAfter(t, limit, c.run)
					if err == nil {
						return // it was faster
					}
					require.ErrorIs(t, err, context.Canceled)
					if after < 100*time.Millisecond {
						return
					}
					late = append(late, after)
				}
				t.Fatalf("it ended %v after its context", late)
			})
		}
	}
	s, err := piled(t, n).Within(t.Context()).Finish()
	require.NoError(t, err)
	require.EqualValues(t, 120*n, s.NumSamples())
}

// endedAfter cancels a run after limit, beginning when it first looks at its context, so
// that the time for making the input does not count, and returns how long it went on.
func endedAfter(t *testing.T, limit time.Duration, run func(context.Context) (*Selection, error)) (time.Duration, error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan time.Time, 1)
	lazy := &startsLate{Context: ctx, start: func() {
		time.AfterFunc(limit, func() {
			ended <- time.Now()
			cancel()
		})
	}}
	_, err := run(lazy)
	over := time.Now()
	if err != nil && ctx.Err() == nil {
		return 0, err
	}
	return over.Sub(<-ended), err
}

// startsLate is a context that tells when it is first looked at.
type startsLate struct {
	context.Context
	start func()
}

func (c *startsLate) Err() error {
	if c.start != nil {
		c.start()
		c.start = nil
	}
	return c.Context.Err()
}

// unmerged is a selection of n chunks of a series each of which overlaps the next.
func unmerged(t testing.TB, n int) *Selection {
	s := piled(t, n).table()
	return s.finish()
}

// spread is a selection of n chunks of one series that do not overlap each other, with
// samples 2 ms apart from start on. Each overlaps two of those of another one whose start is
// 121 ms later, and so all overlap through others.
func spread(t testing.TB, n int, start int64) *Selection {
	b := NewBuilder(0)
	b.Series(name(0))
	times := make([]int64, 120)
	for k := range int64(n) {
		for i := range times {
			times[i] = start + 2*(120*k+int64(i))
		}
		require.NoError(t, b.Floats(times, make([]float64, len(times))))
	}
	return finish(t, b)
}
