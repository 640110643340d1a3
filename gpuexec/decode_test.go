package gpuexec

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// sizes are numbers of chunks around those of a tile, a block and a grid.
var sizes = []int{1, 31, 32, 33, 127, 129, 1000}

func TestDecode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	onBench(t, func(b *bench) {
		for _, n := range sizes {
			chunks := make([][]byte, n)
			times, values := make([][]int64, n), make([][]float64, n)
			for i := range chunks {
				times[i], values[i] = selectiontest.RandomSamples(r, r.IntN(200))
				chunks[i] = encode(t, times[i], values[i])
			}
			d := b.decode(chunks, r)
			for i := range chunks {
				require.NoError(t, d.status[i].Err())
				stale := false
				for j := range times[i] {
					at := abi.Place(d.rows, i, j)
					checkSample(t, d, at, times[i][j], values[i][j], chunks[i])
					stale = stale || value.IsStaleNaN(values[i][j])
				}
				require.Equal(t, stale, d.status[i].Stale(), "chunk %d", i)
			}
		}
	})
}

// TestDecodeLongChunk: the header counts up to 65535 samples.
func TestDecodeLongChunk(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	onBench(t, func(b *bench) {
		ts, vs := selectiontest.RandomSamples(r, math.MaxUint16)
		d := b.decode([][]byte{encode(t, ts[:3], vs[:3]), encode(t, ts, vs)}, r)
		require.NoError(t, d.status[1].Err())
		for j := range ts {
			checkSample(t, d, abi.Place(d.rows, 1, j), ts[j], vs[j], nil)
		}
		untouched := d.times[abi.Place(d.rows, 0, 3):]
		require.Equal(t, uint64(0xEEEEEEEEEEEEEEEE), uint64(untouched[0]), "places behind a shorter chunk stay as they are")
	})
}

// TestDecodeCorrupt cuts chunks at every byte and flips every bit of them: the
// kernel must tell what is wrong with each, or agree with Prometheus's iterator on
// the samples of those that still decode.
func TestDecodeCorrupt(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rounds := 30
	if testing.Short() {
		rounds = 6
	}
	seen := map[abi.Status]int{}
	onBench(t, func(b *bench) {
		for range rounds {
			good := randomChunk(t, r)
			var chunks [][]byte
			for at := 2; at < len(good); at++ {
				chunks = append(chunks, good[:at])
			}
			for bit := range len(good) * 8 {
				bad := append([]byte(nil), good...)
				bad[bit/8] ^= 0x80 >> (bit % 8)
				chunks = append(chunks, bad)
			}
			d := b.decode(chunks, r)
			for i, c := range chunks {
				checkDecoded(t, d, i, c)
				seen[d.status[i]&^stale]++
			}
		}
	})
	for _, s := range []abi.Status{0, truncated, badNumber, backwards} {
		require.NotZero(t, seen[s], "status %d does not occur", s)
	}
	t.Log(seen)
}

func randomChunk(t *testing.T, r *rand.Rand) []byte {
	ts, vs := selectiontest.RandomSamples(r, 2+r.IntN(60))
	return encode(t, ts, vs)
}

// TestDecodeCorruptAlone gives each corrupt chunk a slab of its own, so that a
// checker of memory sees any read behind it.
func TestDecodeCorruptAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	onBench(t, func(b *bench) {
		good := randomChunk(t, r)
		for at := 2; at < len(good); at++ {
			checkDecoded(t, b.decode([][]byte{good[:at]}, r), 0, good[:at])
			bad := append([]byte(nil), good...)
			bad[at] ^= byte(1 + r.IntN(255))
			checkDecoded(t, b.decode([][]byte{bad}, r), 0, bad)
		}
	})
}

// checkDecoded compares what the device made of chunk i with what the slow
// decoder and, if it is in order, the iterator make of its bytes.
func checkDecoded(t *testing.T, d decoded, i int, chunk []byte) {
	_, _, want := slowDecode(chunk)
	if want != d.status[i]&^stale {
		t.Fatalf("%x: status %d, not %d", chunk, d.status[i], want)
	}
	if want != 0 {
		return
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR, chunk)
	require.NoError(t, err)
	it := c.Iterator(nil)
	for j := 0; it.Next() != chunkenc.ValNone; j++ {
		ts, v := it.At()
		checkSample(t, d, abi.Place(d.rows, i, j), ts, v, chunk)
	}
	require.NoError(t, it.Err(), "%x", chunk)
}

func checkSample(t *testing.T, d decoded, at uint64, ts int64, v float64, chunk []byte) {
	if d.times[at] != ts || d.values[at] != math.Float64bits(v) {
		t.Fatalf("%x: place %d has (%d, %x), not (%d, %x)", chunk, at, d.times[at], d.values[at], ts, math.Float64bits(v))
	}
}

func TestReduce(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	onBench(t, func(b *bench) {
		chunks := make([][]byte, 500)
		want := make([]abi.ChunkSums, len(chunks))
		for i := range chunks {
			ts, vs := selectiontest.RandomSamples(r, r.IntN(150))
			for j := range ts {
				want[i].Times += uint64(ts[j])
				want[i].Sum += vs[j]
			}
			chunks[i] = encode(t, ts, vs)
		}
		slab, refs := slabOf(chunks, r)
		in := Chunks{put(b, slab), put(b, refs), uint32(len(refs))}
		sums, status := space[abi.ChunkSums](b, uint64(len(refs))), space[uint32](b, uint64(len(refs)))
		require.NoError(t, b.reduceXOR(in, sums, status))
		got := get[abi.ChunkSums](b, sums, uint64(len(refs)))
		for i, s := range get[abi.Status](b, status, uint64(len(refs))) {
			require.NoError(t, s.Err())
			require.Equal(t, want[i].Times, got[i].Times)
			require.Equal(t, bitsOf(want[i].Sum), bitsOf(got[i].Sum), "%v %v", want[i].Sum, got[i].Sum)
		}
		b.free(in.Slab, in.Refs, sums, status)
	})
}

// bitsOf is the bits of a sum. Which NaN comes of an operation is the
// processor's business.
func bitsOf(v float64) uint64 {
	if math.IsNaN(v) {
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(v)
}
