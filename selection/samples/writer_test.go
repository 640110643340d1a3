package samples

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/slab"
)

// requireFloats checks that Floats makes the chunks that Prometheus makes, byte for
// byte, behind another one in the same slab.
func requireFloats(t testing.TB, times []int64, values []float64) {
	t.Helper()
	w := NewWriter(t.Context(), 0, 0)
	w.Labels = name(0)
	require.NoError(t, w.Floats([]int64{math.MinInt64}, []float64{1}))
	require.NoError(t, w.Floats(times, values))
	require.NoError(t, w.Floats([]int64{math.MaxInt64}, []float64{1}))
	last := len(w.Chunks) - 1
	for _, c := range w.Chunks[1:last] {
		n := min(len(times), samplesPerChunk)
		want := chunkenc.NewXORChunk()
		app, err := want.Appender()
		require.NoError(t, err)
		for i := range n {
			app.Append(0, times[i], values[i])
		}
		require.Equal(t, want.Bytes(), w.Slabs().Bytes(c))
		require.Equal(t, slab.Chunk{MinT: times[0], MaxT: times[n-1], Slab: c.Slab, Off: c.Off, Len: uint32(len(want.Bytes())), Samples: uint16(n), Enc: chunkenc.EncXOR}, c)
		times, values = times[n:], values[n:]
	}
	require.Empty(t, times)
	for c, at := range map[slab.Chunk]int64{w.Chunks[0]: math.MinInt64, w.Chunks[last]: math.MaxInt64} {
		one, err := chunkenc.FromData(c.Enc, w.Slabs().Bytes(c))
		require.NoError(t, err)
		require.Equal(t, []sample{{T: at, V: math.Float64bits(1)}}, drain(t, one.Iterator(nil)))
	}
}

func TestFloats(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 8))
	// Differences of distances on either side of where their length changes.
	edges := []int64{1 << 13, 1 << 16, 1 << 19, 1 << 40}
	for range 2000 {
		var times []int64
		var values []float64
		at, delta, v := r.Int64()>>r.IntN(64), int64(1+r.IntN(30_000)), float64(r.IntN(1000))
		if r.IntN(2) == 0 {
			at = -at
		}
		for range r.IntN(300) {
			times, values = append(times, at), append(values, v)
			switch r.IntN(4) {
			case 0:
				delta = max(1, delta+int64(r.IntN(9))-4)
			case 1:
				e := edges[r.IntN(len(edges))] + int64(r.IntN(3)) - 1
				delta = max(1, delta+e*int64(1-2*r.IntN(2)))
			}
			if at += delta; at <= times[len(times)-1] {
				break // the end of time
			}
			switch r.IntN(6) {
			case 0, 1:
				v += float64(r.IntN(10))
			case 2:
				v = math.Float64frombits(r.Uint64())
			case 3:
				v = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Float64frombits(value.StaleNaN), math.SmallestNonzeroFloat64}[r.IntN(5)]
			case 4:
				v = math.Float64frombits(math.Float64bits(v) ^ 1<<r.IntN(64))
			}
		}
		requireFloats(t, times, values)
	}
	requireFloats(t, []int64{math.MinInt64, 0, math.MaxInt64}, []float64{1, 2, 3})
	requireFloats(t, nil, nil)
	for n := range 3*samplesPerChunk + 2 {
		times := timesBetween(1, int64(n), 1)
		requireFloats(t, times, make([]float64, len(times)))
	}
}

// TestFloatsTakeNoMoreRoom: samples that take as many bits as samples can stay within
// the room that is found for them.
func TestFloatsTakeNoMoreRoom(t *testing.T) {
	var times []int64
	var values []float64
	at := int64(math.MinInt64)
	for i := range samplesPerChunk {
		times, values = append(times, at), append(values, math.Float64frombits(0x8000_0000_0000_0001*uint64(i%2)+uint64(i)<<1))
		at += 1 << (20 + 34*(i%2))
	}
	for n := range samplesPerChunk + 1 {
		requireFloats(t, times[:n], values[:n])
	}
}

func TestFloatsOutOfOrder(t *testing.T) {
	for _, at := range []int{1, 2, 119, 120, 121, 250} {
		for _, same := range []bool{false, true} {
			times := timesBetween(1, 300, 1)
			times[at] = times[at-1] - 1
			if same {
				times[at] = times[at-1]
			}
			w := NewWriter(t.Context(), 0, 0)
			w.Labels = name(7)
			require.EqualError(t, w.Floats(times, make([]float64, len(times))),
				fmt.Sprintf("series %s: sample at %d ms comes after one at %d ms; samples must be in time order", name(7), times[at], times[at-1]))
		}
	}
}

func TestFloatsLimit(t *testing.T) {
	w := NewWriter(t.Context(), 0, 30)
	w.Labels = name(0)
	require.NoError(t, w.Floats([]int64{1}, []float64{2}))
	require.NoError(t, w.Floats([]int64{2}, []float64{2}))
	err := w.Floats([]int64{3, 4, 5, 6}, []float64{1, 2, 3, 4})
	require.ErrorIs(t, err, slab.ErrTooLarge)
	require.ErrorContains(t, err, name(0).String())
}

func TestOverlappingCorruptChunks(t *testing.T) {
	for _, bad := range []int{0, 1, 2} {
		w := NewWriter(t.Context(), 0, 0)
		w.Labels = name(0)
		for k := range 3 {
			data := encode(t, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
			if k == bad {
				data = data[:len(data)-3]
			}
			require.NoError(t, w.Chunk(chunkenc.EncXOR, 0, 900+int64(k), data))
		}
		_, err := w.Separate(name(0), w.Slabs(), w.Chunks)
		var ce *CorruptError
		require.ErrorAs(t, err, &ce, bad)
		require.Equal(t, name(0), ce.Series)
	}
}

// TestLayersForgetHints: whether a histogram is a reset of the one before it is
// only known within a source.
func TestLayersForgetHints(t *testing.T) {
	histograms := func(e chunkenc.Encoding, times ...int64) layer {
		c, err := chunkenc.FromData(e, encode(t, e, times, rising))
		require.NoError(t, err)
		return layer{Iterator: c.Iterator(nil)}
	}
	const not, unknown = histogram.NotCounterReset, histogram.UnknownCounterReset
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram} {
		it := &layers{watch: &parallel.Watch{}, all: []layer{histograms(e, 100, 200, 300, 600), histograms(e, 100, 200, 400, 500)}}
		var got []histogram.CounterResetHint
		for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
			if v == chunkenc.ValHistogram {
				_, h := it.AtHistogram(nil)
				got = append(got, h.CounterResetHint)
				continue
			}
			_, h := it.AtFloatHistogram(nil)
			got = append(got, h.CounterResetHint)
		}
		require.NoError(t, it.Err())
		require.Equal(t, []histogram.CounterResetHint{unknown, not, not, unknown, not, unknown}, got)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Those of selectiontest that nearly every test uses.
type sample = selectiontest.Sample

var (
	drain              = selectiontest.Drain
	encode, rising     = selectiontest.Encode, selectiontest.Rising
	timesBetween, name = selectiontest.TimesBetween, selectiontest.Name
)
