// Package selectiontest makes chunks for the tests of what reads selections, and makes their
// samples comparable.
package selectiontest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
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
