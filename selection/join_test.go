package selection

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// one returns a selection of one series with one chunk.
func one(t *testing.T, i int, e chunkenc.Encoding, times []int64, value func(int64) float64) *Selection {
	t.Helper()
	b := NewBuilder(0)
	b.Series(name(i))
	add(t, b, e, times, value)
	return finish(t, b)
}

func mustJoin(t *testing.T, parts ...*Selection) *Selection {
	t.Helper()
	s, err := Join(ctx, parts...)
	require.NoError(t, err)
	requireNormal(t, s)
	return s
}

func TestJoinOfNothing(t *testing.T) {
	require.Zero(t, mustJoin(t).NumSeries())
	require.Zero(t, mustJoin(t, nil, Empty()).NumSeries())
	a := one(t, 0, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
	require.Same(t, a, mustJoin(t, nil, a, Empty()))
}

func TestJoinUnitesSeries(t *testing.T) {
	a := mustJoin(t, one(t, 3, chunkenc.EncXOR, timesBetween(0, 900, 100), rising), one(t, 1, chunkenc.EncXOR, timesBetween(0, 900, 100), rising))
	b := mustJoin(t, one(t, 2, chunkenc.EncXOR, timesBetween(0, 900, 100), rising), one(t, 1, chunkenc.EncXOR, timesBetween(1000, 1900, 100), rising))
	for _, s := range []*Selection{mustJoin(t, a, b), mustJoin(t, b, a)} {
		require.Equal(t, 3, s.NumSeries())
		require.Equal(t, 4, s.NumChunks())
		require.Len(t, s.Chunks(0), 2)
		require.Len(t, all(t, s)[name(1).String()], 20)
		require.Len(t, s.slabs, len(a.slabs)+len(b.slabs), "no bytes are copied")
	}
}

func TestJoinKeepsRepeatedChunksOnce(t *testing.T) {
	for _, e := range encodings {
		a := one(t, 0, e, timesBetween(0, 900, 100), rising)
		b := one(t, 0, e, timesBetween(0, 900, 100), rising)
		s := mustJoin(t, a, b, a)
		require.Equal(t, 1, s.NumChunks(), e)
		require.Equal(t, all(t, a), all(t, s))
	}
}

// TestJoinGrownChunk joins every pair of states of a growing chunk.
func TestJoinGrownChunk(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	values := func(int64) float64 { return []float64{0, 1, 1, math.Pi, 1e300, math.NaN()}[r.IntN(6)] }
	for _, e := range encodings {
		value := rising
		if e == chunkenc.EncXOR || e == chunkenc.EncXOR2 {
			memo := map[int64]float64{}
			value = func(t int64) float64 {
				if _, ok := memo[t]; !ok {
					memo[t] = values(t)
				}
				return memo[t]
			}
		}
		times := timesBetween(0, 4000, 100)
		times[7] += 13
		grown := one(t, 0, e, times, value)
		for n := 1; n <= len(times); n++ {
			early := one(t, 0, e, times[:n], value)
			for _, s := range []*Selection{mustJoin(t, early, grown), mustJoin(t, grown, early)} {
				require.Equal(t, all(t, grown), all(t, s), "%s, %d samples", e, n)
				if e == chunkenc.EncXOR {
					require.Equal(t, 1, s.NumChunks())
					require.Equal(t, grown.Bytes(grown.Chunks(0)[0]), s.Bytes(s.Chunks(0)[0]), "the bytes are those that arrived")
				}
			}
		}
	}
}

// TestJoinOverlaps compares the union of overlapping chunks with one made of
// samples.
func TestJoinOverlaps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 300 {
		e := encodings[r.IntN(len(encodings))]
		want := map[int64]bool{}
		var parts []*Selection
		for range 2 + r.IntN(4) {
			var times []int64
			for ts := r.Int64N(3000); len(times) < 1+r.IntN(60); ts += 1 + r.Int64N(200) {
				times = append(times, ts)
				want[ts] = true
			}
			parts = append(parts, one(t, r.IntN(2)*0, e, times, rising))
		}
		s := mustJoin(t, parts...)
		got := all(t, s)[name(0).String()]
		require.Len(t, got, len(want))
		for _, v := range got {
			require.True(t, want[v.T])
			if withST(e) {
				require.Equal(t, v.T-1000, v.ST)
			}
		}
		for i, p := range parts {
			requireNormal(t, p)
			require.NotEmpty(t, all(t, p), "part %d is left as it was", i)
		}
	}
}

func TestJoinMixedEncodingsThatOverlap(t *testing.T) {
	a := one(t, 0, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
	b := one(t, 0, chunkenc.EncHistogram, timesBetween(450, 1350, 100), rising)
	got := all(t, mustJoin(t, a, b))[name(0).String()]
	require.Len(t, got, 20)
	require.True(t, slices.IsSortedFunc(got, func(a, b sample) int { return int(a.T - b.T) }))
}

// TestJoinOverlapsInProportion checks that merging does not take much more
// memory than what is merged.
func TestJoinOverlapsInProportion(t *testing.T) {
	const n = 500
	a, b := NewBuilder(0), NewBuilder(0)
	for i := range n {
		a.Series(name(i))
		add(t, a, chunkenc.EncXOR, timesBetween(0, 12_000, 100), rising)
		b.Series(name(i))
		add(t, b, chunkenc.EncXOR, timesBetween(6050, 18_000, 100), rising)
	}
	x, y := finish(t, a), finish(t, b)
	s := mustJoin(t, x, y)
	require.Less(t, s.SizeBytes(), 4*(x.SizeBytes()+y.SizeBytes()))
	require.Less(t, len(s.slabs), 20)
	for _, ss := range all(t, s) {
		require.Len(t, ss, 121+120)
	}
}

func TestJoinCorruptOverlap(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 1000, []byte{0, 9, 1, 2, 3}))
	bad := finish(t, b)
	_, err := Join(ctx, bad, one(t, 0, chunkenc.EncXOR, timesBetween(500, 900, 100), rising))
	var ce *CorruptError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, name(0), ce.Series)
}

// TestJoinOfSlices cuts a selection in pieces and joins them again.
func TestJoinOfSlices(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 30 {
		s := random(t, r, 12)
		var parts []*Selection
		at := int64(0)
		for at < 60_000 {
			next := at + 1 + r.Int64N(10_000)
			parts = append(parts, s.Slice(at, next))
			at = next
		}
		parts = append(parts, s.Slice(at, math.MaxInt64))
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		j := mustJoin(t, parts...)
		require.Equal(t, all(t, s), all(t, j))
		require.Equal(t, s.NumChunks(), j.NumChunks())
		require.LessOrEqual(t, len(j.slabs), len(s.slabs))
	}
}
