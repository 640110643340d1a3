package selection

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/slab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Those of selectiontest that nearly every test uses.
type sample = selectiontest.Sample

var (
	current, drain     = selectiontest.Current, selectiontest.Drain
	encodings, withST  = selectiontest.Encodings, selectiontest.WithST
	encode, rising     = selectiontest.Encode, selectiontest.Rising
	timesBetween, name = selectiontest.TimesBetween, selectiontest.Name
)

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
			if c.Off%slab.Align != 0 || len(data) != int(c.Len) || cap(data)-len(data) < slab.Pad || c.Samples != encoding.SampleCount(c.Enc, data) {
				t.Fatalf("chunk %+v with %d bytes and room for %d", c, len(data), cap(data))
			}
		}
	}
	require.Equal(t, chunks, s.NumChunks())
	require.Equal(t, samples, s.NumSamples())
	require.Equal(t, encs, s.encodings)
	var slabs int64
	for _, l := range s.slabs {
		slabs += int64(cap(l.Bytes()))
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
			if v.T >= mint && v.T <= maxt {
				out = append(out, v)
			}
		}
	}
	return out
}

var ctx = context.Background()
