package selection

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

func mustMerge(t *testing.T, parts ...*Selection) *Selection {
	t.Helper()
	s, err := Merge(ctx, parts...)
	require.NoError(t, err)
	requireNormal(t, s)
	return s
}

// layered is what Merge promises: the samples of all, the first's at equal times.
func layered(t *testing.T, parts ...*Selection) map[string][]sample {
	seen := map[string]map[int64]bool{}
	out := map[string][]sample{}
	for _, p := range parts {
		for name, ss := range all(t, p) {
			if seen[name] == nil {
				seen[name] = map[int64]bool{}
			}
			for _, s := range ss {
				if !seen[name][s.T] {
					seen[name][s.T] = true
					out[name] = append(out[name], s)
				}
			}
		}
	}
	for _, ss := range out {
		slices.SortFunc(ss, func(a, b sample) int { return cmp.Compare(a.T, b.T) })
	}
	return out
}

func TestMergeOfOneSource(t *testing.T) {
	a := one(t, 0, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
	require.Same(t, a, mustMerge(t, nil, a, Empty()))
	require.Zero(t, mustMerge(t).NumSeries())
}

// TestMergeRandomly merges sources whose samples have different values at equal
// times.
func TestMergeRandomly(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	encoded := 0
	for range 300 {
		parts := make([]*Selection, 2+r.IntN(3))
		for p := range parts {
			b := NewBuilder(0)
			for i := range 4 {
				b.Series(name(i))
				ts := 50 * r.Int64N(60)
				for range r.IntN(5) {
					var times []int64
					for range 1 + r.IntN(30) {
						times = append(times, ts)
						ts += 50 * (1 + r.Int64N(4))
					}
					value := rising
					if r.IntN(2) == 0 {
						value = func(ts int64) float64 { return rising(ts) + float64(1000*p) }
					}
					add(t, b, encodings[r.IntN(len(encodings))], times, value)
					ts += 50 * r.Int64N(60)
				}
			}
			parts[p] = finish(t, b)
		}
		// A source may be another's copy, or have what another has.
		switch r.IntN(4) {
		case 0:
			parts[len(parts)-1] = recut(t, parts[0], 1+r.IntN(40))
		case 1:
			parts[0] = recut(t, parts[len(parts)-1], 1+r.IntN(40))
		case 2:
			parts[len(parts)-1] = mustJoin(t, parts[0], one(t, 9, chunkenc.EncXOR, timesBetween(0, 900, 100), rising))
		}
		s := mustMerge(t, parts...)
		require.Equal(t, layered(t, parts...), all(t, s))
		encoded += len(s.slabs)
		for _, p := range parts {
			encoded -= len(p.slabs)
		}
	}
	require.Greater(t, encoded, 100, "chunks must have overlapped")
}

// recut returns the samples of s in chunks of up to n.
func recut(t *testing.T, s *Selection, n int) *Selection {
	b := NewBuilder(0)
	for i := range s.NumSeries() {
		b.Series(s.Labels(i))
		for _, c := range s.Chunks(i) {
			it := s.Decode(i, []Chunk{c}, math.MinInt64, math.MaxInt64, nil)
			var times []int64
			values := map[int64]float64{}
			flush := func() {
				if len(times) > 0 {
					add(t, b, c.Enc, times, func(ts int64) float64 { return values[ts] })
				}
				times = nil
			}
			for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
				if times = append(times, it.AtT()); v == chunkenc.ValFloat {
					_, values[it.AtT()] = it.At()
				} else {
					values[it.AtT()] = rising(it.AtT())
				}
				if len(times) == n {
					flush()
				}
			}
			flush()
		}
	}
	return finish(t, b)
}

// TestMergeOfTheSameSamples: of sources with the same samples, in chunks that are
// cut elsewhere, the chunks of the first are kept as they are, and so are those of
// one that has what the others have and more.
func TestMergeOfTheSameSamples(t *testing.T) {
	for _, e := range encodings {
		b := NewBuilder(0)
		b.Series(name(0))
		for k := range int64(5) {
			add(t, b, e, timesBetween(10_000*k, 10_000*k+9000, 1000), rising)
		}
		a := finish(t, b)
		less := one(t, 0, e, timesBetween(4_000, 39_000, 5000), rising)
		for _, other := range []*Selection{recut(t, a, 7), less} {
			s := mustMerge(t, a, other)
			require.Equal(t, a.Chunks(0), s.Chunks(0), e)
		}
		require.Equal(t, all(t, a), all(t, mustMerge(t, less, a)), e)
	}
}

// TestMergeIsTheSameForEveryRange asks for parts of the time of two sources that
// differ: what is merged must not depend on which.
func TestMergeIsTheSameForEveryRange(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	for k := range int64(10) {
		add(t, b, chunkenc.EncXOR, timesBetween(10_000*k, 10_000*k+9000, 1000), func(int64) float64 { return 1 })
	}
	first := finish(t, b)
	second := one(t, 0, chunkenc.EncXOR, timesBetween(500, 99_000, 500), func(int64) float64 { return 2 })
	want := all(t, mustMerge(t, first, second))[name(0).String()]
	for from := range 10 {
		part := mustMerge(t, first.Slice(int64(from)*10_000, math.MaxInt64), second)
		for _, s := range all(t, part)[name(0).String()] {
			if s.T >= int64(from)*10_000 {
				require.Equal(t, want[s.T/500], s, "from %d", from)
			}
		}
	}
}

// TestMergeKeepsChunks: chunks that two sources have, or that do not overlap, are
// neither copied nor encoded again.
func TestMergeKeepsChunks(t *testing.T) {
	long, recent := NewBuilder(0), NewBuilder(0)
	long.Series(name(0))
	recent.Series(name(0))
	for k := range int64(6) {
		times := timesBetween(10_000*k, 10_000*k+9000, 1000)
		if k < 4 {
			add(t, long, chunkenc.EncXOR, times, rising)
		}
		if k == 3 {
			times = times[:7] // written on since
		}
		if k >= 2 {
			add(t, recent, chunkenc.EncXOR, times, rising)
		}
	}
	a, b := finish(t, long), finish(t, recent)
	for _, s := range []*Selection{mustMerge(t, a, b), mustMerge(t, b, a)} {
		require.Equal(t, 6, s.NumChunks())
		require.Len(t, s.slabs, 2)
		require.Len(t, all(t, s)[name(0).String()], 60)
	}
}

func TestMergeOfCorruptChunks(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 1000, []byte{0, 9, 1, 2, 3}))
	_, err := Merge(ctx, one(t, 0, chunkenc.EncXOR, timesBetween(500, 900, 100), rising), finish(t, b))
	var ce *CorruptError
	require.ErrorAs(t, err, &ce)
	require.Equal(t, name(0), ce.Series)
}

// TestMergeMemos: memos are for chunks that the next query sees again.
func TestMergeMemos(t *testing.T) {
	build := func(shift int64) *Selection {
		b := NewBuilder(0)
		for i := range 2 {
			b.Series(name(i))
			for k := range int64(3) {
				from := 1000*k + int64(i)*shift // the second series is not as in the other source
				add(t, b, chunkenc.EncXOR, timesBetween(from, from+900, 100), rising)
			}
		}
		return finish(t, b)
	}
	a, b := build(0).WithMemos(2500), build(50).WithMemos(1500)
	s := mustMerge(t, a, b)
	require.Equal(t, int64(1500), s.KeptUntil, "what both keep")
	require.Same(t, a.Memo(0), s.Memo(0))
	require.Nil(t, s.Memo(1), "its chunks were merged into new ones")
}

// BenchmarkMerge merges what two sources have of 500 series of six hours, a sample
// every 15 s: different series, the same chunks, or the same samples in chunks that
// are cut elsewhere.
func BenchmarkMerge(b *testing.B) {
	const series = 500
	source := func(from, length int64) *Selection {
		s := NewBuilder(0)
		for i := range series {
			s.Series(name(int(from) + i))
			start := int64(0)
			for end := length; start < 6*3_600_000; end += 120 * 15_000 {
				add(b, s, chunkenc.EncXOR, timesBetween(start, min(end, 6*3_600_000)-15_000, 15_000), rising)
				start = end
			}
		}
		return finish(b, s)
	}
	first := source(0, 120*15_000)
	for _, c := range []struct {
		name   string
		second *Selection
	}{
		{"different series", source(series, 120*15_000)},
		{"same chunks", source(0, 120*15_000)},
		{"cut elsewhere", source(0, 60*15_000)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Merge(ctx, first, c.second); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(first.NumSamples()), "ns/sample")
		})
	}
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			for set := first.SeriesSet(0, math.MaxInt64, nil); set.Next(); {
				for it := set.At().Iterator(nil); it.Next() != chunkenc.ValNone; {
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(first.NumSamples()), "ns/sample")
	})
}
