package selection

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample is one sample in a form that can be compared: histograms without their
// counter reset hint, which depends on where chunks are cut.
type sample struct {
	t  int64
	st int64
	v  uint64 // bits of the value, or a hash of the histogram
	h  bool
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

func current(it chunkenc.Iterator, v chunkenc.ValueType) sample {
	s := sample{t: it.AtT(), st: it.AtST()}
	if v == chunkenc.ValFloat {
		_, f := it.At()
		s.v = math.Float64bits(f)
	} else {
		_, h := it.AtFloatHistogram(nil)
		s.v, s.h = hash(h), true
	}
	return s
}

func drain(t testing.TB, it chunkenc.Iterator) (out []sample) {
	t.Helper()
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		out = append(out, current(it, v))
	}
	require.NoError(t, it.Err())
	return out
}

// content returns the samples of a set by series, and the series' order.
// Series without samples are left out.
func content(t testing.TB, set storage.SeriesSet) (map[string][]sample, []string) {
	t.Helper()
	out := map[string][]sample{}
	var order []string
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		it = s.Iterator(it)
		if ss := drain(t, it); len(ss) > 0 {
			name := s.Labels().String()
			if _, twice := out[name]; twice {
				t.Fatalf("%s came twice", name)
			}
			out[name] = ss
			order = append(order, name)
		}
	}
	require.NoError(t, set.Err())
	return out, order
}

func all(t testing.TB, s *Selection) map[string][]sample {
	t.Helper()
	out, _ := content(t, s.SeriesSet(math.MinInt64, math.MaxInt64, nil))
	return out
}

// encodings are those that a chunk may have.
var encodings = []chunkenc.Encoding{
	chunkenc.EncXOR, chunkenc.EncXOR2, chunkenc.EncHistogram, chunkenc.EncFloatHistogram, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST,
}

// withST reports whether samples in encoding e get start timestamps in tests.
func withST(e chunkenc.Encoding) bool {
	return e == chunkenc.EncXOR2 || e == chunkenc.EncHistogramST || e == chunkenc.EncFloatHistogramST
}

// encode returns a chunk with a sample at each of times (ms), whose value is
// value(time).
func encode(t testing.TB, e chunkenc.Encoding, times []int64, value func(int64) float64) []byte {
	t.Helper()
	c, err := chunkenc.NewEmptyChunk(e)
	require.NoError(t, err)
	app, err := c.Appender()
	require.NoError(t, err)
	for _, ts := range times {
		st := int64(0)
		if withST(e) {
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
		if err != nil {
			t.Fatal(err)
		}
	}
	return c.Bytes()
}

// rising is a value that no encoding takes for a counter reset.
func rising(t int64) float64 { return float64(t / 100) }

// timesBetween returns times from mint to maxt, step apart (ms).
func timesBetween(mint, maxt, step int64) (ts []int64) {
	for t := mint; t <= maxt; t += step {
		ts = append(ts, t)
	}
	return ts
}

func name(i int) labels.Labels {
	return labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%04d", i))
}

// add adds a chunk with samples at times to the builder's current series.
func add(t testing.TB, b *Builder, e chunkenc.Encoding, times []int64, value func(int64) float64) {
	t.Helper()
	require.NoError(t, b.Chunk(e, times[0], times[len(times)-1], encode(t, e, times, value)))
}

func finish(t testing.TB, b *Builder) *Selection {
	t.Helper()
	s, err := b.Finish()
	require.NoError(t, err)
	requireNormal(t, s)
	return s
}

// requireNormal checks what a Selection promises.
func requireNormal(t testing.TB, s *Selection) {
	t.Helper()
	require.True(t, s.normal(), "series sorted and unique, chunks in order and disjoint")
	require.Len(t, s.first, s.NumSeries()+1)
	samples, chunks := int64(0), 0
	var encs uint32
	for i := range s.NumSeries() {
		for _, c := range s.Chunks(i) {
			chunks++
			samples += int64(c.Samples)
			encs |= 1 << c.Enc
			data := s.Bytes(c)
			if c.Off%Align != 0 || len(data) != int(c.Len) || cap(data)-len(data) < Pad || c.Samples != sampleCount(c.Enc, data) {
				t.Fatalf("chunk %+v with %d bytes and room for %d", c, len(data), cap(data))
			}
		}
	}
	require.Equal(t, chunks, s.NumChunks())
	require.Equal(t, samples, s.NumSamples())
	require.Equal(t, encs, s.encodings)
	var slabs int64
	for _, l := range s.slabs {
		slabs += int64(cap(l.b))
	}
	require.GreaterOrEqual(t, s.SizeBytes(), slabs)
}

// random makes a selection of n series with chunks of all encodings.
func random(t testing.TB, r *rand.Rand, n int) *Selection {
	b := NewBuilder(0)
	for i := range n {
		b.Series(name(i))
		ts := r.Int64N(5000)
		for range r.IntN(6) {
			var times []int64
			for range 1 + r.IntN(40) {
				times = append(times, ts)
				ts += 1 + r.Int64N(300)
			}
			add(t, b, encodings[r.IntN(len(encodings))], times, rising)
			if r.IntN(3) == 0 {
				ts += r.Int64N(20_000)
			}
		}
	}
	return finish(t, b)
}

// reference is all samples of series i from mint to maxt, read chunk by chunk.
func reference(t testing.TB, s *Selection, i int, mint, maxt int64) (out []sample) {
	for _, c := range s.Chunks(i) {
		chk, err := chunkenc.FromData(c.Enc, slices.Clone(s.Bytes(c)))
		require.NoError(t, err)
		for _, v := range drain(t, chk.Iterator(nil)) {
			if v.t >= mint && v.t <= maxt {
				out = append(out, v)
			}
		}
	}
	return out
}

var ctx = context.Background()
