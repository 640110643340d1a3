package selection

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection/slab"
)

// ChunkSeriesSet returns the selection's chunks that overlap mint to maxt (ms,
// both included), still encoded and whole.
func (s *Selection) ChunkSeriesSet(mint, maxt int64, ws annotations.Annotations) storage.ChunkSeriesSet {
	return &chunkSeriesSet{set{sel: s, i: -1, mint: mint, maxt: maxt, ws: ws}}
}

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
		s.OnDiscard = func() { discarded++ }
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

func TestSlice(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 60 {
		s := random(t, r, 8)
		mint := r.Int64N(40_000) - 1000
		maxt := mint + r.Int64N(20_000)
		cut := s.Slice(mint, maxt)
		requireNormal(t, cut)
		want, _ := content(t, s.SeriesSet(mint, maxt, nil))
		got, _ := content(t, cut.SeriesSet(mint, maxt, nil))
		require.Equal(t, want, got)
		for i := range cut.NumSeries() {
			for _, c := range cut.Chunks(i) {
				require.True(t, c.MaxT >= mint && c.MinT <= maxt)
			}
		}
		require.LessOrEqual(t, cut.SizeBytes(), s.SizeBytes())
	}
}

func TestSliceIsItsOwn(t *testing.T) {
	s := random(t, rand.New(rand.NewPCG(3, 2)), 8)
	var outer, inner int
	s.OnDiscard = func() { outer++ }
	for _, c := range []*Selection{s.Slice(math.MinInt64, math.MaxInt64), s.Slice(5000, 6000)} {
		require.NotSame(t, s, c)
		outer, inner = 0, 0
		c.Discard()
		require.Equal(t, 1, outer)
		c.OnDiscard = func() { inner++ }
		c.Discard()
		s.Discard()
		require.Equal(t, 1, inner)
		require.Equal(t, 2, outer)
	}
	require.Zero(t, s.Slice(-10, -5).NumSeries())
	require.Zero(t, s.Slice(10, 5).NumSeries())
	require.Empty(t, s.Slice(-10, -5).slabs, "slabs without a chunk are let go")
	require.Zero(t, Empty().Slice(0, 1).NumSeries())
}

func TestCutOfAll(t *testing.T) {
	s := random(t, rand.New(rand.NewPCG(2, 8)), 3)
	whole, err := s.Cut(context.Background(), math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.NotSame(t, s, whole)
	require.Equal(t, s.chunks, whole.chunks)
}

func TestCut(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	for range 60 {
		s := random(t, r, 8)
		mint := r.Int64N(40_000) - 1000
		maxt := mint + r.Int64N(20_000)
		cut, err := s.Cut(ctx, mint, maxt)
		require.NoError(t, err)
		requireNormal(t, cut)
		want, _ := content(t, s.SeriesSet(mint, maxt, nil))
		require.Equal(t, want, all(t, cut))
		for i := range cut.NumSeries() {
			cs := cut.Chunks(i)
			require.GreaterOrEqual(t, cs[0].MinT, mint)
			require.LessOrEqual(t, cs[len(cs)-1].MaxT, maxt)
		}
		// The three parts are the whole.
		before, err := s.Cut(ctx, math.MinInt64, mint-1)
		require.NoError(t, err)
		after, err := s.Cut(ctx, maxt+1, math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, all(t, s), all(t, mustJoin(t, after, cut, before)))
	}
}

func TestCutAfterGap(t *testing.T) {
	// The chunk says that it begins before the cut, but has no sample there.
	b := NewBuilder(0)
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 9000, encode(t, chunkenc.EncXOR, timesBetween(5000, 9000, 100), rising)))
	cut, err := finish(t, b).Cut(context.Background(), math.MinInt64, 1000)
	require.NoError(t, err)
	require.Zero(t, cut.NumSeries())
}

func TestCutAfterCorrupt(t *testing.T) {
	b := NewBuilder(0)
	b.Series(name(0))
	require.NoError(t, b.Chunk(chunkenc.EncXOR, 0, 1000, []byte{0, 9, 1, 2, 3}))
	_, err := finish(t, b).Cut(context.Background(), math.MinInt64, 500)
	var ce *CorruptError
	require.ErrorAs(t, err, &ce)
}

func TestFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 10))
	for range 30 {
		s := random(t, r, 8)
		keep := map[string]bool{}
		for i := range s.NumSeries() {
			keep[s.Labels(i).String()] = r.IntN(3) == 0
		}
		out := s.Filter(func(l labels.Labels) bool { return keep[l.String()] })
		requireNormal(t, out)
		want, _ := content(t, s.SeriesSet(math.MinInt64, math.MaxInt64, nil))
		maps.DeleteFunc(want, func(name string, _ []sample) bool { return !keep[name] })
		require.Equal(t, want, all(t, out))
		for _, l := range out.slabs {
			require.Contains(t, s.slabs, l)
		}
	}
}

func TestCompact(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for range 50 {
		s := random(t, r, 20)
		small := s.Slice(3000, 6000)
		c := small.Compact(0.5)
		requireNormal(t, c)
		require.Equal(t, all(t, small), all(t, c))
		require.LessOrEqual(t, c.SizeBytes(), small.SizeBytes())
		require.Same(t, c, c.Compact(0.5))
		tight := small.Compact(1)
		requireNormal(t, tight)
		require.Equal(t, all(t, small), all(t, tight))
		require.Same(t, tight, tight.Compact(1))
		require.LessOrEqual(t, tight.SizeBytes(), c.SizeBytes())
		half := small.Compact(0.8) // some slabs stay, and some are copied
		requireNormal(t, half)
		require.Equal(t, all(t, small), all(t, half))
	}
	data := append([]byte{0, 1}, make([]byte, slab.MaxBytes/3)...)
	b := NewBuilder(0)
	for i := range 20 {
		b.Series(name(i))
		for k := range int64(4) {
			require.NoError(t, b.Chunk(chunkenc.EncXOR, k*10, k*10, data))
		}
	}
	big := finish(t, b)
	c := big.Slice(10, 10).Compact(0.5)
	requireNormal(t, c)
	require.Greater(t, len(c.slabs), 1)
	for i := range c.NumSeries() {
		require.Equal(t, data, c.Bytes(c.Chunks(i)[0]))
	}
}

// TestCompactLittle: what would hardly save memory is not copied.
func TestCompactLittle(t *testing.T) {
	b := NewBuilder(0)
	data := append([]byte{0, 1}, make([]byte, 64<<10)...)
	b.Series(name(0))
	for k := range int64(422) {
		require.NoError(t, b.Chunk(chunkenc.EncXOR, k*10, k*10, data))
	}
	s := finish(t, b)
	last := s.Slab(s.NumSlabs() - 1)
	require.Less(t, 2*len(last.Bytes()), cap(last.Bytes()))
	require.Same(t, s, s.Compact(0.5))
	few := s.Slice(4200, 4210)
	require.Less(t, few.Compact(0.5).SizeBytes(), few.SizeBytes())
}

// TestSamplesAbout: where all series have as many samples, their number is right, of all chunks that
// the time touches.
func TestSamplesAbout(t *testing.T) {
	b := NewBuilder(0)
	for i := range 100 {
		b.Series(labels.FromStrings("i", string(rune('a'+i))))
		for from := range int64(3) {
			add(t, b, chunkenc.EncXOR, timesBetween(100*from, 100*from+9, 1), rising)
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	require.EqualValues(t, 3000, s.SamplesAbout(0, 1000))
	require.EqualValues(t, 2000, s.SamplesAbout(50, 1000))
	require.Zero(t, s.SamplesAbout(1000, 2000))
	require.Zero(t, Empty().SamplesAbout(0, 1))
}

// A stale marker does not say that its chunk is of gauge histograms, and is cut with it all
// the same.
func TestCutGaugesWithStaleMarker(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST} {
		c, err := chunkenc.NewEmptyChunk(e)
		require.NoError(t, err)
		app, err := c.Appender()
		require.NoError(t, err)
		for ts := int64(1); ts <= 4; ts++ {
			h, fh := tsdbutil.GenerateTestGaugeHistogram(10-ts), tsdbutil.GenerateTestGaugeFloatHistogram(10-ts)
			if ts == 4 {
				h = &histogram.Histogram{Sum: stale, CounterResetHint: histogram.GaugeType}
				fh = &histogram.FloatHistogram{Sum: stale, CounterResetHint: histogram.GaugeType}
			}
			if e == chunkenc.EncHistogram || e == chunkenc.EncHistogramST {
				_, _, app, err = app.AppendHistogram(nil, 0, ts, h, true)
			} else {
				_, _, app, err = app.AppendFloatHistogram(nil, 0, ts, fh, true)
			}
			require.NoError(t, err)
		}
		b := NewBuilder(0)
		b.Series(labels.FromStrings("a", "b"))
		require.NoError(t, b.Chunk(e, 1, 4, c.Bytes()))
		s := finish(t, b)
		for mint := int64(1); mint <= 4; mint++ {
			for maxt := mint; maxt <= 4; maxt++ {
				cut, err := s.Cut(ctx, mint, maxt)
				require.NoError(t, err, "%s from %d to %d", e, mint, maxt)
				requireNormal(t, cut)
				require.Equal(t, 1, cut.NumChunks())
				require.Equal(t, reference(t, s, 0, mint, maxt), reference(t, cut, 0, mint, maxt))
			}
		}
	}
}
