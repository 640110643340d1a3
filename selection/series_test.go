package selection

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

func TestSeriesSet(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	for range 80 {
		s := random(t, r, 10)
		mint := r.Int64N(40_000) - 1000
		maxt := mint + r.Int64N(30_000) - 100
		got, order := content(t, s.SeriesSet(mint, maxt, nil))
		require.True(t, slices.IsSorted(order))
		want := map[string][]sample{}
		for i := range s.NumSeries() {
			if ss := reference(t, s, i, mint, maxt); len(ss) > 0 {
				want[s.Labels(i).String()] = ss
			}
		}
		require.Equal(t, want, got)
	}
}

func TestSetsPassWarnings(t *testing.T) {
	ws := annotations.New().Add(errors.New("careful"))
	s := random(t, rand.New(rand.NewPCG(1, 1)), 2)
	require.Equal(t, ws, s.SeriesSet(0, 1, ws).Warnings())
	require.Equal(t, ws, s.ChunkSeriesSet(0, 1, ws).Warnings())
	require.NoError(t, s.SeriesSet(0, 1, ws).Err())
}

// TestIterator mixes Next and Seek and compares with a list of samples.
func TestIterator(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	var it chunkenc.Iterator // reused all along
	for range 150 {
		s := random(t, r, 3)
		mint := r.Int64N(20_000) - 5000
		maxt := mint + r.Int64N(60_000)
		set := s.SeriesSet(mint, maxt, nil)
		for set.Next() {
			series := set.At()
			i := slices.IndexFunc(s.series, func(l labelsT) bool { return l.Hash() == series.Labels().Hash() })
			want := reference(t, s, i, mint, maxt)
			it = series.Iterator(it)
			at := -1
			for at < len(want) {
				var v chunkenc.ValueType
				if r.IntN(3) > 0 {
					v = it.Next()
					at++
				} else {
					target := mint + r.Int64N(maxt-mint+1000) - 500
					if r.IntN(2) == 0 && at >= 0 && at < len(want) {
						target = want[at].T + r.Int64N(2000) - 500
					}
					v = it.Seek(target)
					at = max(at, 0)
					for at < len(want) && want[at].T < target {
						at++
					}
				}
				if at >= len(want) {
					require.Equal(t, chunkenc.ValNone, v)
					break
				}
				if v == chunkenc.ValNone || current(it, v) != want[at] {
					t.Fatalf("sample %d: %v instead of %+v", at, v, want[at])
				}
			}
			require.Equal(t, chunkenc.ValNone, it.Next())
			require.Equal(t, chunkenc.ValNone, it.Seek(math.MinInt64))
			require.Equal(t, chunkenc.ValNone, it.Seek(math.MaxInt64))
			require.NoError(t, it.Err())
		}
	}
}

func TestIteratorTypes(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	want := []chunkenc.ValueType{}
	types := map[chunkenc.Encoding]chunkenc.ValueType{
		chunkenc.EncXOR: chunkenc.ValFloat, chunkenc.EncXOR2: chunkenc.ValFloat,
		chunkenc.EncHistogram: chunkenc.ValHistogram, chunkenc.EncHistogramST: chunkenc.ValHistogram,
		chunkenc.EncFloatHistogram: chunkenc.ValFloatHistogram, chunkenc.EncFloatHistogramST: chunkenc.ValFloatHistogram,
	}
	for i, e := range encodings {
		add(t, b, e, []int64{int64(i) * 100, int64(i)*100 + 50}, rising)
		want = append(want, types[e], types[e])
	}
	s := finish(t, b)
	require.False(t, s.OnlyFloats())
	set := s.SeriesSet(0, 1000, nil)
	require.True(t, set.Next())
	it := set.At().Iterator(nil)
	var got []chunkenc.ValueType
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		got = append(got, v)
		if v == chunkenc.ValHistogram {
			ts, h := it.AtHistogram(new(histogram.Histogram))
			require.Equal(t, it.AtT(), ts)
			require.NoError(t, h.Validate())
		}
	}
	require.Equal(t, want, got)
}

func TestSpecialValuesKeepTheirBits(t *testing.T) {
	values := []float64{math.Float64frombits(value.StaleNaN), math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64, 5e-324}
	for _, e := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
		s := one(t, 0, e, timesBetween(0, int64(len(values)-1), 1), func(t int64) float64 { return values[t] })
		for i, v := range all(t, s)[name(0).String()] {
			require.Equal(t, math.Float64bits(values[i]), v.V, "%s %v", e, values[i])
		}
	}
}

// TestIteratorChecksTimes gives chunks whose samples are not where they say.
func TestIteratorChecksTimes(t *testing.T) {
	for _, c := range []struct {
		why        string
		mint, maxt int64
		times      []int64
	}{
		{"starts before", 100, 1000, []int64{0, 1000}},
		{"ends after", 0, 900, []int64{0, 1000}},
		{"goes back", 0, 1000, []int64{0, 500, 400, 1000}},
		{"repeats", 0, 1000, []int64{0, 500, 500, 1000}},
	} {
		b := NewBuilder(0)
		b.Series(name(0))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, c.mint, c.maxt, encode(t, chunkenc.EncXOR, c.times, rising)))
		s := finish(t, b)
		discarded := 0
		s.SetDiscard(func() { discarded++ })
		set := s.SeriesSet(0, 2000, nil)
		require.True(t, set.Next())
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
		}
		var ce *CorruptError
		require.ErrorAs(t, it.Err(), &ce, c.why)
		require.ErrorContains(t, ce, "not in time order or not within")
		require.Equal(t, name(0), ce.Series)
		require.Equal(t, c.mint, ce.MinT)
		require.Equal(t, 1, discarded)
		require.Equal(t, chunkenc.ValNone, it.Next())
		require.Equal(t, chunkenc.ValNone, it.Seek(0))
	}
}

// TestCorruptBytes damages every byte of a chunk of every encoding in turn.
// Whatever comes out must come in order and within the range, without a panic.
func TestCorruptBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	other := one(t, 0, chunkenc.EncXOR, timesBetween(50, 500, 100), rising)
	for _, e := range encodings {
		good := encode(t, e, timesBetween(0, 3000, 600), rising)
		try := func(data []byte) {
			b := NewBuilder(0)
			b.Series(name(0))
			if err := b.Chunk(e, 0, 3000, data); err != nil {
				return
			}
			s := mustFinish(b)
			set := s.SeriesSet(0, 3000, nil)
			if !set.Next() {
				return
			}
			it := set.At().Iterator(nil)
			last, n := int64(-1), 0
			for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
				if v == chunkenc.ValFloat {
					it.At()
				} else {
					it.AtFloatHistogram(nil)
				}
				if it.AtT() <= last || it.AtT() > 3000 {
					t.Fatalf("%s: sample at %d ms after one at %d ms", e, it.AtT(), last)
				}
				last = it.AtT()
				n++
			}
			if n > int(s.Chunks(0)[0].Samples) {
				t.Fatalf("%s: %d samples of %d", e, n, s.Chunks(0)[0].Samples)
			}
			if it.Err() != nil {
				var ce *CorruptError
				require.ErrorAs(t, it.Err(), &ce)
			}
			// The other ways that bytes are read.
			_ = NewBuilder(0).openEnd(e, data)
			_, _ = s.Cut(context.Background(), math.MinInt64, 1500)
			_, _ = Join(ctx, s, other)
		}
		for at := range good {
			for range 1 {
				bad := slices.Clone(good)
				bad[at] = byte(r.IntN(256))
				try(bad)
			}
			for range 2 {
				bad := slices.Clone(good)
				bad[at] ^= 1 << r.IntN(8)
				try(bad)
			}
			try(good[:at])
		}
		for range 200 {
			bad := slices.Clone(good)
			for range 1 + r.IntN(8) {
				bad[r.IntN(len(bad))] = byte(r.IntN(256))
			}
			try(bad)
		}
	}
}

// mustFinish is finish without its checks.
func mustFinish(b *Builder) *Selection {
	s, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return s
}

// openEnd adds data as a chunk whose end is not known.
func (b *Builder) openEnd(e chunkenc.Encoding, data []byte) error {
	b.Series(name(0))
	return b.Chunk(e, 0, math.MaxInt64, data)
}

func TestConcurrentReads(t *testing.T) {
	s := random(t, rand.New(rand.NewPCG(14, 1)), 30)
	want := all(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				got, _ := content(t, s.SeriesSet(math.MinInt64, math.MaxInt64, nil))
				if len(got) != len(want) {
					t.Errorf("%d series, want %d", len(got), len(want))
				}
				if c, err := s.Cut(context.Background(), math.MinInt64, 10_000); err != nil || c == nil {
					t.Error(err)
				}
				if j, err := Join(ctx, s.Slice(0, 5000), s.Slice(4000, 90_000)); err != nil || j.NumSeries() == 0 {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
