package column

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/exact"
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
	even := []EvenRun{{0, 500, 0, 15_000, 0}, {500, 1000, 501 * 15_000, 15_000, 0}}
	require.Equal(t, Runs{Even: even}, findRuns(ts))
	require.Equal(t, Runs{Even: even}, Runs{}.Add(ts))
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
		at, width, newest := max(at, ts[0]), 1+r.Int64N(400_000), make([]int32, len(counts))
		for _, e := range runs.Even {
			width = max(width, e.Every+e.Late)
		}
		runs.Newest(at, interval, width, newest, counts)
		for k, hi := range counts {
			moment := at + int64(k)*interval
			want := sort.Search(len(ts), func(i int) bool { return ts[i] > moment })
			require.EqualValues(t, want, hi, "seed %d, case %d, moment %d", seed, n, k)
			if ts[want-1] > moment-width {
				want--
			}
			require.EqualValues(t, want, newest[k], "seed %d, case %d, moment %d, width %d", seed, n, k, width)
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

// TestSinceLate: the same of how late samples are.
func TestSinceLate(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 7))
	made, refused := 0, 0
	for range 5000 {
		n, before := r.IntN(71), int32(r.IntN(2))
		late := make([]uint16, 1+r.IntN(500))
		for k := range late {
			late[k] = []uint16{uint16(r.IntN(1 << 16)), 0, math.MaxUint16}[r.IntN(3)]
		}
		to := make([]int32, n)
		for k := range to {
			to[k] = before + int32(k*(len(late)-1)/max(n, 1))
		}
		every, interval, since := 1+r.Int64N(1<<20), r.Int64N(1<<20), r.Int64N(1<<41)-1<<40
		far := r.IntN(10) == 0
		if far {
			since = 1<<52 + 1 + r.Int64N(1<<52)
			if r.IntN(2) == 0 {
				since = -since
			}
		}
		out := make([]float64, n+8)
		for k := range out {
			out[k] = 0.5
		}
		done := sinceLate(out[:n:n], to, before, late, every, since, interval)
		switch {
		case far || !hasVectors:
			require.Zero(t, done)
			refused++
		default:
			require.Equal(t, n&^3, done)
			made += done
		}
		for k, v := range out {
			if k >= done {
				require.Equal(t, 0.5, v)
				continue
			}
			want := since - int64(k)*interval + int64(to[k])*every + int64(late[to[k]-before])
			require.Equal(t, math.Float64bits(float64(want)), math.Float64bits(v), "%v and %v", want, v)
		}
	}
	require.True(t, !hasVectors || made > 50_000, made)
	require.Greater(t, refused, 300)
}

// Values that can be packed come back bit by bit, and those that can not are told.
func TestPacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(-exact.MaxInteger+1, exact.MaxInteger-1).Draw(t, "base")
		unit := rapid.IntRange(0, 24).Draw(t, "unit")
		var vs []float64
		fits := true
		for _, u := range rapid.SliceOfN(rapid.Uint32(), 1, 50).Draw(t, "units") {
			n := base + int64(u)<<unit
			fits = fits && n < exact.MaxInteger
			vs = append(vs, float64(n))
		}
		p, ok := packIfExact(vs)
		if fits {
			require.True(t, ok)
		}
		if ok {
			requireSameBits(t, vs, p.append(nil, 0, len(vs)))
			lo := rapid.IntRange(0, len(vs)).Draw(t, "lo")
			hi := rapid.IntRange(lo, len(vs)).Draw(t, "hi")
			requireSameBits(t, append([]float64{7}, vs[lo:hi]...), p.append([]float64{7}, lo, hi))
		}
	})
}

func TestNotPacked(t *testing.T) {
	for _, vs := range [][]float64{
		nil,
		{0.5}, {1, 2, 2.5},
		{math.NaN()}, {1, math.Float64frombits(value.StaleNaN)},
		{math.Inf(1)}, {0, math.Inf(-1)},
		{math.Copysign(0, -1)}, {3, math.Copysign(0, -1)},
		{exact.MaxInteger}, {-exact.MaxInteger}, {0, 1e300},
		{0, 1, 1 << 32}, {-1, 0, 1<<32 - 1},
	} {
		_, ok := packIfExact(vs)
		require.False(t, ok, "%v", vs)
	}
}

// Whatever the values are, packing loses nothing or is refused.
func TestPackedArbitrary(t *testing.T) {
	values := []float64{0, 1, -1, 4096, 1 << 31, 1 << 32, 1<<32 - 1, exact.MaxInteger - 1, 1 - exact.MaxInteger, 0.5, math.NaN(), math.Inf(1), math.Copysign(0, -1), math.MaxFloat64, 1e-300}
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(rapid.SampledFrom(values), 1, 4).Draw(t, "values")
		if p, ok := packIfExact(vs); ok {
			requireSameBits(t, vs, p.append(nil, 0, len(vs)))
		}
	})
}

func requireSameBits(t require.TestingT, want, got []float64) {
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, math.Float64bits(want[i]), math.Float64bits(got[i]), "%v %v", want[i], got[i])
	}
}
