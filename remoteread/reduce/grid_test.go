package reduce

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread/serve"
)

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute
)

var (
	newer = serve.Release{Major: 3, Minor: 15}
	older = serve.Release{Major: 2, Minor: 42}
)

// What a Prometheus with a lookback of 5 minutes says of selectors, and what is understood.
func TestUnderstand(t *testing.T) {
	const start, end = 10 * hour, 12 * hour
	since := func(start, width int64) int64 { return start - width + 1 } // as release 3 has it
	for name, c := range map[string]struct {
		reader serve.Release
		hints  *storage.SelectHints
		want   grid
		width  int64
		why    reason
	}{
		"x":                        {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: end, Step: minute}, want: grid{start, end, minute}, width: 5 * minute},
		"x, release 2":             {reader: older, hints: &storage.SelectHints{Start: start - 5*minute, End: end, Step: minute}, want: grid{start, end, minute}, width: 5*minute + 1},
		"rate(x[1h])":              {reader: newer, hints: &storage.SelectHints{Start: since(start, hour), End: end, Step: minute, Range: hour, Func: "rate"}, want: grid{start, end, minute}, width: hour},
		"rate(x[1h]), release 2":   {reader: older, hints: &storage.SelectHints{Start: start - hour, End: end, Step: minute, Range: hour}, want: grid{start, end, minute}, width: hour + 1},
		"until no step":            {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: end - 1, Step: minute}, want: grid{start, end - minute, minute}, width: 5 * minute},
		"instant":                  {reader: newer, hints: &storage.SelectHints{Start: since(start+7, 5*minute), End: start + 7}, want: grid{start + 7, start + 7, 1}, width: 5 * minute},
		"x @ 7":                    {reader: newer, hints: &storage.SelectHints{Start: since(7*second, 5*minute), End: 7 * second, Step: minute}, want: grid{7 * second, 7 * second, 1}, width: 5 * minute},
		"before 1970":              {reader: newer, hints: &storage.SelectHints{Start: since(-start, 5*minute), End: end, Step: minute}, want: grid{-start, end, minute}, width: 5 * minute},
		"no hints":                 {reader: newer, why: noHints},
		"series":                   {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start, Func: "series"}, why: noHints},
		"empty hints":              {reader: newer, hints: &storage.SelectHints{Func: "sum"}, why: noHints},
		"no Prometheus":            {hints: &storage.SelectHints{Start: since(start, 5*minute), End: start}, why: unknownReader},
		"a later release":          {reader: serve.Release{Major: 3, Minor: 16}, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start}, why: unknownReader},
		"an earlier release":       {reader: serve.Release{Major: 2, Minor: 41}, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start}, why: unknownReader},
		"info":                     {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start, Func: "info"}, why: unlikeOthers},
		"not aligned":              {reader: newer, hints: &storage.SelectHints{Start: since(start+second, 5*minute), End: end, Step: minute}, why: notAligned},
		"offset 7s":                {reader: newer, hints: &storage.SelectHints{Start: since(start-7*second, 5*minute), End: end - 7*second, Step: minute}, why: notAligned},
		"lookback of 1m, instant":  {reader: newer, hints: &storage.SelectHints{Start: since(start, minute), End: start}, why: wrongLookback},
		"lookback of 10m, instant": {reader: newer, hints: &storage.SelectHints{Start: since(start, 10*minute), End: start}, why: wrongLookback},
		"x smoothed, instant":      {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: start + 5*minute}, why: wrongLookback},
		"anchored, instant":        {reader: newer, hints: &storage.SelectHints{Start: since(start, 6*minute), End: start, Range: minute}, why: wrongLookback},
		"federation":               {reader: newer, hints: &storage.SelectHints{Start: start - 5*minute, End: start}, why: wrongLookback},
		"no time":                  {reader: newer, hints: &storage.SelectHints{Start: math.MinInt64, End: math.MaxInt64, Step: 1}, why: wrongLookback},
		"negative step":            {reader: newer, hints: &storage.SelectHints{Start: since(start, 5*minute), End: end, Step: -minute}, why: wrongLookback},
	} {
		got, why := understand(serve.Query{Hints: c.hints, Reader: c.reader}, 5*time.Minute)
		require.Equal(t, c.why, why, name)
		require.Equal(t, c.want, got.grid, name)
		require.Equal(t, c.width, got.width, name)
	}
}

// FuzzUnderstand: whatever is understood is a grid within the hints, whose windows reach back to
// their start.
func FuzzUnderstand(f *testing.F) {
	f.Add(int64(1), int64(300_000), minute, int64(0), 3, 15, int64(5))
	f.Add(int64(math.MinInt64), int64(math.MaxInt64), int64(1), int64(math.MaxInt64), 2, 42, int64(0))
	f.Add(int64(math.MaxInt64/8), int64(math.MaxInt64/8), int64(math.MaxInt64/8), int64(1), 2, 42, int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, start, end, step, width int64, major, minor int, lookback int64) {
		q := serve.Query{Hints: &storage.SelectHints{Start: start, End: end, Step: step, Range: width}, Reader: serve.Release{Major: major, Minor: minor}}
		a, why := understand(q, time.Duration(lookback))
		if why != "" {
			return
		}
		require.Positive(t, a.step)
		require.Positive(t, a.steps())
		require.Equal(t, start, a.first-a.width+1)
		require.True(t, a.first <= a.last && a.last <= end, "%+v", a)
		require.Zero(t, (a.last-a.first)%a.step)
		require.Greater(t, a.last+a.step, end)
		for _, at := range []int64{start, end, a.first, a.last, a.first + 1, (start + end) / 2} {
			after := a.after(at)
			require.True(t, after >= at && after >= a.first && (after == a.first || after-a.step < at), "%d after %d", after, at)
		}
	})
}

// TestNewestRelease: with another release of Prometheus in go.mod, TestReducedReads in engine/
// says whether its hints mean the same; then newestMinor3 follows.
func TestNewestRelease(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(mod), fmt.Sprintf("github.com/prometheus/prometheus v0.3%02d.", newestMinor3))
}
