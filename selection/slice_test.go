package selection

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection/slab"
)

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
	s.SetDiscard(func() { outer++ })
	for _, c := range []*Selection{s.Slice(math.MinInt64, math.MaxInt64), s.Slice(5000, 6000)} {
		require.NotSame(t, s, c)
		outer, inner = 0, 0
		c.Discard()
		require.Equal(t, 1, outer)
		c.SetDiscard(func() { inner++ })
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

// TestSamplesAbout: where all series have as many samples, their number is right, of all chunks that
// the time touches.
func TestSamplesAbout(t *testing.T) {
	b := NewBuilder(0)
	for i := range 100 {
		b.Series(labels.FromStrings("i", string(rune('a'+i))))
		for from := range int64(3) {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			require.NoError(t, err)
			for k := range int64(10) {
				app.Append(0, 100*from+k, 1)
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, 100*from, 100*from+9, c.Bytes()))
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
