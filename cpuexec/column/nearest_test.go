package column

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is nearest to moments, and how far the last two samples are apart, is what a look at every
// sample says: over times with gaps, in bursts, at huge or tiny distances, and before 1970.
func TestNearest(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	answered, bursts := 0, 0
	for n := range 3000 {
		ts := oddTimes(r)
		runs := Runs{Late: []uint16{}}.Add(ts)
		require.Equal(t, len(ts), runs.Len())
		interval := 1 + r.Int64N(1+r.Int64N(300_000))
		if every := runs.Even[len(runs.Even)/2].Every; r.IntN(2) == 0 {
			interval = every * (1 + r.Int64N(6))
		}
		at := ts[r.IntN(len(ts))] - r.Int64N(200_000)
		moments := 1 + r.IntN(400)
		all := Nearest{make([]int32, moments+2), make([]int32, moments+2), make([]int32, moments+2)}
		all.Count[moments], all.Before[moments+1], all.After[moments] = -1, -1, -1
		if ok := runs.Nearest(at, interval, all.Part(0, moments)); ok {
			answered++
			for k := range moments {
				want := nearestTo(ts, at+int64(k)*interval)
				got := Nearest{all.Count[k : k+1], all.Before[k : k+1], all.After[k : k+1]}
				require.Equal(t, want, got, "seed %d, case %d, moment %d of %d", seed, n, k, moments)
			}
			require.Equal(t, int32(-1), all.Count[moments], "what is behind the last moment stays")
			require.Equal(t, int32(-1), all.After[moments])
			require.Equal(t, int32(-1), all.Before[moments+1])
		}
		if len(runs.Even) > 1 {
			bursts++
		}
		requireApart(t, r, ts, runs)
		requireApart(t, r, ts, Runs{}.Add(ts))
	}
	if hasNearest() {
		require.Greater(t, answered, 2500, "seed %d", seed)
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

// nearestTo is what is nearest to at.
func nearestTo(ts []int64, at int64) Nearest {
	n := Nearest{[]int32{0}, []int32{Farthest}, []int32{Farthest}}
	for _, t := range ts {
		if t <= at {
			n.Count[0]++
			n.Before[0] = int32(min(at-t, Farthest))
			continue
		}
		n.After[0] = int32(min(t-at, Farthest))
		break
	}
	return n
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
