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

// randomSamples makes samples of one of several kinds, so that every control
// code of the format occurs.
func randomSamples(r *rand.Rand, n int) ([]int64, []float64) {
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

func TestDecodeXORAgainstIterator(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		ts, vs := randomSamples(r, 1+r.IntN(200))
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
		ts, vs := randomSamples(r, 2+r.IntN(60))
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
		ts, vs := randomSamples(r, 1+r.IntN(50))
		f.Add(selectiontest.Chunk(f, chunkenc.EncXOR, nil, ts, vs))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkAgainstIterator(t, selectiontest.Padded(b)) })
}
