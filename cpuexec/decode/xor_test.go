package decode

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection/selectiontest"
)

func TestDecodeXORAgainstIterator(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(200))
		b := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
		gt, gv := make([]int64, len(ts)), make([]float64, len(ts))
		stale, err := decodeXOR(b, gt, gv)
		require.NoError(t, err)
		require.Equal(t, ts, gt)
		anyStale := false
		for i := range vs {
			require.Equal(t, math.Float64bits(vs[i]), math.Float64bits(gv[i]))
			anyStale = anyStale || value.IsStaleNaN(vs[i])
		}
		require.Equal(t, anyStale, stale)
	}
}

// TestDecodeXORCorrupt flips and cuts every byte of chunks: the decoder must
// return an error or samples, and what it accepts the iterator must agree with.
func TestDecodeXORCorrupt(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		ts, vs := selectiontest.RandomSamples(r, 2+r.IntN(60))
		good := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
		for at := range good {
			for _, flip := range []byte{0xff, 1, 0x80, byte(1 + r.IntN(254))} {
				b := selectiontest.Padded(good)
				b[at] ^= flip
				checkAgainstIterator(t, b)
			}
			checkAgainstIterator(t, selectiontest.Padded(good[:at]))
		}
	}
}

func checkAgainstIterator(t testing.TB, b []byte) {
	if len(b) < 2 {
		return // the selection's builder refuses these
	}
	n := int(binary.BigEndian.Uint16(b))
	ts, vs := make([]int64, n), make([]float64, n)
	if _, err := decodeXOR(b, ts, vs); err != nil {
		return
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR, b[:len(b):len(b)])
	require.NoError(t, err)
	it := c.Iterator(nil)
	for i := range ts {
		require.Equal(t, chunkenc.ValFloat, it.Next(), "%x sample %d: %v", b, i, it.Err())
		at, v := it.At()
		require.Equal(t, at, ts[i], "%x sample %d", b, i)
		require.Equal(t, math.Float64bits(v), math.Float64bits(vs[i]), "%x sample %d", b, i)
	}
}

func FuzzDecodeXOR(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(50))
		f.Add(selectiontest.Chunk(f, chunkenc.EncXOR, nil, ts, vs))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkAgainstIterator(t, selectiontest.Padded(b)) })
}
