package encoding_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/samples"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/slab"
)

// xorChunk makes a chunk of n samples, whose times and values are of many shapes.
func xorChunk(t testing.TB, r *rand.Rand, n int) []byte {
	t.Helper()
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	require.NoError(t, err)
	ts, step, v := r.Int64N(1e13)-1e12, int64(15_000), r.NormFloat64()
	if r.IntN(4) == 0 {
		ts = r.Int64N(200) - 100
	}
	for range n {
		app.Append(0, ts, v)
		switch r.IntN(12) {
		case 0:
			step = 1 + r.Int64N(1<<(1+r.IntN(40)))
		case 1:
			step = 1 + max(0, step+r.Int64N(20)-10)
		}
		ts += step
		switch r.IntN(6) {
		case 0:
			v = math.Float64frombits(r.Uint64())
		case 1:
			v = r.NormFloat64()
		case 2:
			v = math.Trunc(v) + 1
		case 3:
			v = math.Float64frombits(math.Float64bits(v) ^ 1<<r.IntN(64))
		}
	}
	return c.Bytes()
}

// cut is CutXOR of a chunk with samples from minT to maxT.
func cut(data []byte, minT, maxT, mint, maxt int64) ([]byte, int64, int64, bool) {
	return encoding.CutXOR(slab.Chunk{MinT: minT, MaxT: maxT}, selectiontest.Padded(data), mint, maxt)
}

func TestCutXOR(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		data := xorChunk(t, r, 1+r.IntN(30))
		chunk, err := chunkenc.FromData(chunkenc.EncXOR, data)
		require.NoError(t, err)
		all := selectiontest.Drain(t, chunk.Iterator(nil))
		mint := all[r.IntN(len(all))].T + r.Int64N(3) - 1
		maxt := all[r.IntN(len(all))].T + r.Int64N(3) - 1
		var want []selectiontest.Sample
		for _, s := range all {
			if s.T >= mint && s.T <= maxt {
				want = append(want, s)
			}
		}
		got, first, last, ok := cut(data, all[0].T, all[len(all)-1].T, mint, maxt)
		require.True(t, ok)
		if len(want) == 0 {
			require.Nil(t, got)
			continue
		}
		require.Equal(t, []int64{want[0].T, want[len(want)-1].T}, []int64{first, last})
		part, err := chunkenc.FromData(chunkenc.EncXOR, got)
		require.NoError(t, err)
		require.Equal(t, want, selectiontest.Drain(t, part.Iterator(nil)))
		require.LessOrEqual(t, len(got), len(data)+24)
	}
}

// Whatever bytes a chunk has, what is cut of it is what its samples say, or it is left to
// who decodes them.
func FuzzCutXOR(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		data := xorChunk(f, r, 1+r.IntN(30))
		f.Add(data, int64(0), int64(1e12))
		data = slices.Clone(data)
		data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		f.Add(data, int64(-1e12), int64(5e12))
		f.Add(data[:r.IntN(len(data))], int64(-1e12), int64(5e12))
	}
	f.Fuzz(func(t *testing.T, data []byte, mint, maxt int64) {
		requireCutIsRight(t, data, mint, maxt)
	})
}

func TestCutXOROfDamagedChunks(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		data := slices.Clone(xorChunk(t, r, 1+r.IntN(12)))
		switch r.IntN(3) {
		case 0:
			data = data[:r.IntN(len(data))]
		case 1:
			data[1] = byte(r.IntN(256))
		default:
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		}
		requireCutIsRight(t, data, r.Int64N(1e13)-1e12, r.Int64N(1e13)-1e12)
	}
}

func requireCutIsRight(t *testing.T, data []byte, mint, maxt int64) {
	t.Helper()
	const first, last = math.MinInt64 + 1, math.MaxInt64 - 1
	w := samples.NewWriter(t.Context(), 0, 0)
	if w.Chunk(chunkenc.EncXOR, first, last, data) != nil || len(w.Chunks) == 0 {
		return
	}
	got, _, _, ok := cut(data, first, last, mint, maxt)
	if !ok {
		return
	}
	of := samples.Series{Slabs: w.Slabs(), Chunks: w.Chunks, MinT: mint, MaxT: maxt}
	want := selectiontest.Drain(t, of.Iterator(nil))
	if got == nil {
		require.Empty(t, want)
		return
	}
	part, err := chunkenc.FromData(chunkenc.EncXOR, got)
	require.NoError(t, err)
	require.Equal(t, want, selectiontest.Drain(t, part.Iterator(nil)))
}

// TestSampleCount compares with Prometheus's for every counter reset flag.
func TestSampleCount(t *testing.T) {
	for _, e := range selectiontest.Encodings {
		c, err := chunkenc.FromData(e, selectiontest.Encode(t, e, selectiontest.TimesBetween(0, 900, 100), selectiontest.Rising))
		require.NoError(t, err)
		if s, ok := c.(interface {
			SetCounterResetHeader(chunkenc.CounterResetHeader)
		}); ok {
			for _, h := range []chunkenc.CounterResetHeader{chunkenc.CounterReset, chunkenc.NotCounterReset, chunkenc.GaugeType, chunkenc.UnknownCounterReset} {
				s.SetCounterResetHeader(h)
				require.EqualValues(t, 10, encoding.SampleCount(e, c.Bytes()), e)
			}
		}
		require.EqualValues(t, c.NumSamples(), encoding.SampleCount(e, c.Bytes()), e)
	}
	// A gauge's flag is set with the first sample.
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncHistogramST} {
		c, err := chunkenc.NewEmptyChunk(e)
		require.NoError(t, err)
		app, err := c.Appender()
		require.NoError(t, err)
		for ts := range int64(5) {
			_, _, app, err = app.AppendHistogram(nil, ts, ts+1, tsdbutil.GenerateTestGaugeHistogram(ts), true)
			require.NoError(t, err)
		}
		require.EqualValues(t, 5, encoding.SampleCount(e, c.Bytes()), e)
	}
}

func TestCheckLayout(t *testing.T) {
	hs := []*histogram.Histogram{
		{},
		tsdbutil.GenerateTestHistogram(1), tsdbutil.GenerateTestGaugeHistogram(70), tsdbutil.GenerateTestCustomBucketsHistogram(3),
		{
			Schema: -4, ZeroThreshold: 0.123, Count: 4000,
			PositiveSpans:   []histogram.Span{{Offset: -3000, Length: 1}, {Offset: 4000, Length: 3}},
			PositiveBuckets: []int64{1000, 0, 0, 0},
		},
	}
	for i, h := range hs {
		for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncHistogramST, chunkenc.EncFloatHistogram, chunkenc.EncFloatHistogramST} {
			c, err := chunkenc.NewEmptyChunk(e)
			require.NoError(t, err)
			app, err := c.Appender()
			require.NoError(t, err)
			if e == chunkenc.EncHistogram || e == chunkenc.EncHistogramST {
				_, _, _, err = app.AppendHistogram(nil, 0, 1, h, true)
			} else {
				_, _, _, err = app.AppendFloatHistogram(nil, 0, 1, h.ToFloat(nil), true)
			}
			require.NoError(t, err)
			require.NoError(t, encoding.CheckLayout(e, c.Bytes()), "histogram %d, %s", i, e)
			for n := 3; n < 6; n++ {
				if i != 0 {
					require.Error(t, encoding.CheckLayout(e, c.Bytes()[:n]), "histogram %d, %s", i, e)
				}
			}
		}
	}

	// No zero threshold, schema 0, one span of 2^32-1 buckets at 0, none below.
	bits := "00000000" + "0" + "10001" + "11111110" + strings.Repeat("0", 24) + strings.Repeat("1", 32) + "0" + "0"
	bad := []byte{0, 1, 0}
	for i := 0; i+8 <= len(bits); i += 8 {
		v, err := strconv.ParseUint(bits[i:i+8], 2, 8)
		require.NoError(t, err)
		bad = append(bad, byte(v))
	}
	bad = append(bad, make([]byte, 40)...)
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram} {
		require.ErrorContains(t, encoding.CheckLayout(e, bad), "buckets")
	}
	require.NoError(t, encoding.CheckLayout(chunkenc.EncXOR, bad))
	// Two spans of one bucket, the second at -2; the first may be below zero.
	for bits, ok := range map[string]bool{
		"00000000" + "0" + "10010" + "10001" + "10110" + "10001" + "10010" + "0": true,
		"00000000" + "0" + "10010" + "10001" + "10110" + "10001" + "10110" + "0": false,
	} {
		chunk := []byte{0, 1, 0}
		for bits += strings.Repeat("0", 200); len(bits) >= 8; bits = bits[8:] {
			v, err := strconv.ParseUint(bits[:8], 2, 8)
			require.NoError(t, err)
			chunk = append(chunk, byte(v))
		}
		require.Equal(t, ok, encoding.CheckLayout(chunkenc.EncHistogram, chunk) == nil)
	}
}
