package samples

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/yield"
)

// hinted is a sample and what is known of a counter reset before it.
type hinted struct {
	sample
	hint histogram.CounterResetHint
}

func drainHinted(t *testing.T, it chunkenc.Iterator) (out []hinted) {
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		s := hinted{sample: current(it, v)}
		switch v {
		case chunkenc.ValHistogram:
			_, h := it.AtHistogram(nil)
			s.hint = h.CounterResetHint
		case chunkenc.ValFloatHistogram:
			_, h := it.AtFloatHistogram(nil)
			s.hint = h.CounterResetHint
		}
		out = append(out, s)
	}
	require.NoError(t, it.Err())
	return out
}

// add writes a chunk with samples at times.
func add(t testing.TB, w *Writer, e chunkenc.Encoding, times []int64, value func(int64) float64) {
	t.Helper()
	require.NoError(t, w.Chunk(e, times[0], times[len(times)-1], encode(t, e, times, value)))
}

// chainOf yields all that was written, of one series.
func chainOf(w *Writer) *chain { return newChain(whole(name(0), w.Slabs(), w.Chunks), &yield.Watch{}) }

// TestChainIsPrometheuss merges chunks at random that overlap in many ways and have
// different values at equal times, and compares with Prometheus's own iterator.
func TestChainIsPrometheuss(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 2 + r.IntN(1<<r.IntN(8))
		w := NewWriter(t.Context(), 0, 0)
		w.Series(name(0))
		grid, histograms := 1+r.Int64N(200), r.IntN(3) == 0
		for k := range n {
			e := encodings[r.IntN(2)]
			if histograms {
				e = encodings[r.IntN(len(encodings))]
			}
			ts := grid * r.Int64N(60)
			var times []int64
			for range 1 + r.IntN(20) {
				times = append(times, ts)
				ts += grid * (1 + r.Int64N(3))
			}
			add(t, w, e, times, func(ts int64) float64 { return rising(ts) + float64(100_000*k) })
		}
		its := make([]chunkenc.Iterator, len(w.Chunks))
		for k := range its {
			one := whole(name(0), w.Slabs(), w.Chunks[k:k+1])
			its[k] = one.Iterator(nil)
		}
		want := drainHinted(t, storage.ChainSampleIteratorFromIterators(nil, its))
		got := drainHinted(t, chainOf(w))
		require.Equal(t, want, got, "seed %d, %d chunks", seed, n)
	}
}

// TestChainSeeks compares what Seek finds with what Next does.
func TestChainSeeks(t *testing.T) {
	w := NewWriter(t.Context(), 0, 0)
	w.Series(name(0))
	for k := range int64(5) {
		add(t, w, chunkenc.EncXOR, timesBetween(100*k, 100*k+900, 70), rising)
	}
	all := drain(t, chainOf(w))
	for _, want := range all {
		it := chainOf(w)
		require.NotEqual(t, chunkenc.ValNone, it.Seek(want.T))
		require.Equal(t, want, current(it, chunkenc.ValFloat))
		require.Equal(t, chunkenc.ValFloat, it.Seek(want.T-1), "it does not go back")
		require.Equal(t, want.T, it.AtT())
	}
	require.Equal(t, chunkenc.ValNone, chainOf(w).Seek(math.MaxInt64))
}

func TestChainOfCorruptChunks(t *testing.T) {
	for _, bad := range []int{0, 1, 2} {
		w := NewWriter(t.Context(), 0, 0)
		w.Series(name(0))
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
