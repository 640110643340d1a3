package column

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// TestLoadBetweenWindows: of a series that is not retained, all samples in windows come, and those
// of chunks between windows do not.
func TestLoadBetweenWindows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	left := 0
	for range 200 {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		var times []int64
		for at := r.Int64N(1000) - 500; len(times) < 2000; {
			at += 1 + r.Int64N(30)
			times = append(times, at)
		}
		require.NoError(t, b.Floats(times, make([]float64, len(times))))
		sel, err := b.Finish()
		require.NoError(t, err)
		q := &Request{Set: NewSet(0), Sel: sel, Width: 1 + r.Int64N(3000), Every: 1 + r.Int64N(9000)}
		q.Mint = times[0] - 2000 + r.Int64N(8000)
		last := r.Int64N(8) // window
		q.Maxt = q.Mint + last*q.Every + q.Width - 1
		got, err := new(Reader).Load(q, 0)
		require.NoError(t, err)
		at := 0
		for _, c := range sel.Chunks(0) {
			needed := false
			for k := range last + 1 {
				from := q.Mint + k*q.Every
				needed = needed || c.MinT < from+q.Width && c.MaxT >= from
			}
			needed = needed || q.Every <= q.Width && c.MinT <= q.Maxt && c.MaxT >= q.Mint
			for _, ts := range times {
				if ts < c.MinT || ts > c.MaxT {
					continue
				}
				if !needed {
					left++
					continue
				}
				require.Less(t, at, got.Times.Len())
				require.Equal(t, ts, got.Times.Own[at])
				at++
			}
		}
		require.Equal(t, at, got.Times.Len())
	}
	require.Greater(t, left, 10_000)
}
