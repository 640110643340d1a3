// Package selectiontest makes chunks for the tests of what reads selections, and makes their
// samples comparable.
package selectiontest

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection/slab"
)

// Chunk returns the bytes of a chunk of samples, with padding behind them. starts are the
// samples' start timestamps, nil for none. All times are in ms.
func Chunk(t testing.TB, e chunkenc.Encoding, starts, ts []int64, vs []float64) []byte {
	c, err := chunkenc.NewEmptyChunk(e)
	require.NoError(t, err)
	app, err := c.Appender()
	require.NoError(t, err)
	for i := range ts {
		start := int64(0)
		if starts != nil {
			start = starts[i]
		}
		app.Append(start, ts[i], vs[i])
	}
	return Padded(c.Bytes())
}

// Padded returns a copy of b with slab.Pad readable bytes behind its end.
func Padded(b []byte) []byte {
	out := make([]byte, len(b), len(b)+slab.Pad)
	copy(out, b)
	return out
}

// RandomSamples makes samples of one of several kinds, so that every control
// code of the format occurs.
func RandomSamples(r *rand.Rand, n int) ([]int64, []float64) {
	ts, vs := make([]int64, n), make([]float64, n)
	kind, t, v := r.IntN(6), r.Int64N(1<<42)-1<<40, 0.0
	for i := range ts {
		switch step := r.IntN(20); {
		case step < 14:
			t += 15_000
		case step < 18:
			t += 15_000 + r.Int64N(1<<uint(3+r.IntN(18)))
		default:
			t += 1 + r.Int64N(1<<uint(1+r.IntN(40)))
		}
		switch kind {
		case 0:
			v += float64(r.IntN(100))
		case 1:
			v = r.NormFloat64()
		case 2:
			v = math.Float64frombits(r.Uint64())
		case 3:
			v = 42
		case 4:
			v = []float64{0, math.NaN(), math.Inf(1), math.Copysign(0, -1), math.Float64frombits(value.StaleNaN)}[r.IntN(5)]
		default:
			if r.IntN(10) == 0 {
				v = float64(r.IntN(5))
			}
		}
		ts[i], vs[i] = t, v
	}
	return ts, vs
}

// Sample is one sample in a form that can be compared: histograms without their
// counter reset hint, which depends on where chunks are cut.
type Sample struct {
	T  int64  // ms
	ST int64  // ms, its start timestamp
	V  uint64 // bits of the value, or a hash of the histogram
	H  bool   // whether it is a histogram
}

func hash(h *histogram.FloatHistogram) uint64 {
	f := fnv.New64a()
	b := fmt.Appendf(nil, "%d %x %x %x %v %v ", h.Schema, h.ZeroThreshold, h.Count, h.Sum, h.PositiveSpans, h.NegativeSpans)
	for _, v := range slices.Concat([]float64{h.ZeroCount}, h.PositiveBuckets, h.NegativeBuckets) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	f.Write(b)
	return f.Sum64()
}

// Current is the sample, of kind v, that it is at.
func Current(it chunkenc.Iterator, v chunkenc.ValueType) Sample {
	s := Sample{T: it.AtT(), ST: it.AtST()}
	if v == chunkenc.ValFloat {
		_, f := it.At()
		s.V = math.Float64bits(f)
	} else {
		_, h := it.AtFloatHistogram(nil)
		s.V, s.H = hash(h), true
	}
	return s
}

// Drain returns the samples that are left in it.
func Drain(t testing.TB, it chunkenc.Iterator) (out []Sample) {
	t.Helper()
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		out = append(out, Current(it, v))
	}
	require.NoError(t, it.Err())
	return out
}

// Encodings are all encodings of a chunk.
var Encodings = []chunkenc.Encoding{
	chunkenc.EncXOR, chunkenc.EncXOR2, chunkenc.EncHistogram, chunkenc.EncFloatHistogram, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST,
}

// WithST reports whether samples in encoding e get start timestamps in tests.
func WithST(e chunkenc.Encoding) bool {
	return e == chunkenc.EncXOR2 || e == chunkenc.EncHistogramST || e == chunkenc.EncFloatHistogramST
}

// Encode returns a chunk with a sample at each of times (ms), whose value is
// value(time).
func Encode(t testing.TB, e chunkenc.Encoding, times []int64, value func(int64) float64) []byte {
	t.Helper()
	c, err := chunkenc.NewEmptyChunk(e)
	require.NoError(t, err)
	app, err := c.Appender()
	for _, ts := range times {
		require.NoError(t, err)
		st := int64(0)
		if WithST(e) {
			st = ts - 1000
		}
		switch e {
		case chunkenc.EncXOR, chunkenc.EncXOR2:
			app.Append(st, ts, value(ts))
		case chunkenc.EncHistogram, chunkenc.EncHistogramST:
			_, _, app, err = app.AppendHistogram(nil, st, ts, tsdbutil.GenerateTestHistogram(int64(value(ts))), true)
		default:
			_, _, app, err = app.AppendFloatHistogram(nil, st, ts, tsdbutil.GenerateTestFloatHistogram(int64(value(ts))), true)
		}
	}
	require.NoError(t, err)
	return c.Bytes()
}

// Rising is a value that no encoding takes for a counter reset.
func Rising(t int64) float64 { return float64(t / 100) }

// TimesBetween returns times from mint to maxt, step apart (ms).
func TimesBetween(mint, maxt, step int64) (ts []int64) {
	for t := mint; t <= maxt; t += step {
		ts = append(ts, t)
	}
	return ts
}

// Name returns the labels of series i, which are in the order of i.
func Name(i int) labels.Labels {
	return labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%04d", i))
}
