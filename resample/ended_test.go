package resample

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

// TestGroupingEnds: a request that is given up while its series are grouped, by as many labels as one
// may list, ends soon, and leaves nothing for the next one.
func TestGroupingEnds(t *testing.T) {
	const series, names = 50_000, 190
	chunk := chunkenc.NewXORChunk()
	a, err := chunk.Appender()
	require.NoError(t, err)
	a.Append(0, 0, 1)
	b := selection.NewBuilder(0)
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m", "a", "x", "b", "x", "c", "x", "d", "x", "e", fmt.Sprintf("%06d", i)))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 0, chunk.Bytes()))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	without := "a"
	for i := range names {
		without += fmt.Sprint(",l", i)
	}
	r, err := Parse(form("metric=m&start=0&end=1&every=1s&aggregates=max&without="+without), now, withExamples(t))
	require.NoError(t, err)
	p, err := NewPlan(r)
	require.NoError(t, err)
	run := func(ctx context.Context, sel *selection.Selection) (groups int, took time.Duration, err error) {
		began := time.Now()
		result, err := New(Options{}).Run(ctx, stored{sel}, p)
		took = time.Since(began)
		if err == nil {
			groups = len(result.Series)
			result.Release()
		}
		return groups, took, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ended, err := run(ctx, sel)
	require.ErrorContains(t, err, "query was canceled")
	groups, whole, err := run(t.Context(), sel)
	require.NoError(t, err)
	require.Equal(t, series, groups)
	require.Less(t, ended, whole/3)
}

// TestSelectorsTakeMemory: many selectors are charged for before any is read.
func TestSelectorsTakeMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 16 << 20, Wait: time.Millisecond})
	for selectors, refused := range map[int]bool{300: false, 900: true} {
		f := form("start=0&end=1&every=1s&aggregates=max")
		for range selectors {
			f.Add("match[]", "m")
		}
		r, err := Parse(f, now, withExamples(t))
		require.NoError(t, err)
		p, err := NewPlan(r)
		require.NoError(t, err)
		result, err := New(Options{Memory: pool}).Run(t.Context(), stored{selection.Empty()}, p)
		if refused {
			require.ErrorAs(t, err, new(*memory.TooLargeError))
		} else {
			require.NoError(t, err)
			result.Release()
		}
		require.Zero(t, pool.Used())
	}
}
