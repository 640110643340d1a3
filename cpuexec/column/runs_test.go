package column

import (
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
)

// Irregular times have no runs worth keeping.
func TestUnevenTimes(t *testing.T) {
	var ts []int64
	for i := range int64(1000) {
		ts = append(ts, i*i*15_000)
	}
	require.Empty(t, findRuns(ts))
	for i := range ts {
		ts[i] = int64(i+i/500) * 15_000
	}
	even := EvenRuns{{0, 500, 0, 15_000, 0}, {500, 1000, 501 * 15_000, 15_000, 0}}
	require.Equal(t, Runs{Even: even}, findRuns(ts))
	require.Equal(t, even, EvenRuns(nil).Add(ts))
	late := make([]uint16, len(ts))
	for i := range ts {
		late[i] = uint16(i * 7 % 4)
		ts[i] += int64(late[i])
	}
	even[0].Late, even[1].Late = 3, 3
	require.Equal(t, Runs{even, late}, findRuns(ts))
	require.Equal(t, ts[500], Runs{even, late}.At(1, 500))
}

// How many samples are not later than moments, and how far the last two are apart, is what a look at
// every sample says: over times with gaps, in bursts, at huge or tiny distances, and before 1970.
func TestOddTimes(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	bursts := 0
	for n := range 3000 {
		ts := oddTimes(r)
		runs := Runs{Late: []uint16{}}.Add(ts)
		require.Equal(t, len(ts), runs.Len())
		interval := 1 + r.Int64N(1+r.Int64N(300_000))
		if every := runs.Even[len(runs.Even)/2].Every; r.IntN(2) == 0 {
			interval = every * (1 + r.Int64N(6))
		}
		at := ts[r.IntN(len(ts))] - r.Int64N(200_000)
		counts := make([]int32, 1+r.IntN(400))
		runs.NotAfter(at, interval, counts)
		for k, got := range counts {
			moment := at + int64(k)*interval
			want := sort.Search(len(ts), func(i int) bool { return ts[i] > moment })
			require.EqualValues(t, want, got, "seed %d, case %d, moment %d", seed, n, k)
		}
		if len(runs.Even) > 1 {
			bursts++
		}
		requireApart(t, r, ts, runs)
		requireApart(t, r, ts, Runs{}.Add(ts))
	}
	require.Greater(t, bursts, 500, "seed %d", seed)
}

// requireApart checks Apart at random numbers of samples.
func requireApart(t *testing.T, r *rand.Rand, ts []int64, runs Runs) {
	to := make([]int32, 1+r.IntN(100))
	for k, most := range to {
		if k > 0 {
			most = to[k-1]
		}
		to[k] = min(most+r.Int32N(5), int32(len(ts)))
	}
	out := make([]float64, len(to))
	runs.Apart(to, out)
	for k, n := range to {
		if n < 2 {
			require.Zero(t, out[k])
			continue
		}
		require.Equal(t, float64(ts[n-1]-ts[n-2])/1000, out[k], "%d of %d samples", n, len(ts))
	}
}

// oddTimes are times of one sample or more.
func oddTimes(r *rand.Rand) (ts []int64) {
	at := r.Int64N(4_000_000_000_000) - 2_000_000_000_000
	for range 1 + r.IntN(4) {
		every := []int64{1, 2, 37, 1000, 15_000, 15_001, 3_600_000, 900_000_000}[r.IntN(8)]
		late := 1 + r.Int64N(every)
		if r.IntN(2) == 0 {
			late = min(late, 4)
		}
		due := at
		for range 1 + r.IntN(200) {
			if due += every; r.IntN(60) == 0 {
				due += r.Int64N(40 * every) // a gap
			}
			at = due + r.Int64N(late)
			ts = append(ts, at)
		}
		if r.IntN(8) == 0 {
			at += r.Int64N(1 << 33)
		}
	}
	return ts
}
