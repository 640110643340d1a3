package encoding

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// Prometheus reads from a tight chunk what was written, bit by bit, and counters far apart take
// fewer bytes.
func TestAppendTightXOR(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(float64) float64{
		"counter": func(v float64) float64 { return v + float64(r.IntN(1000)) },
		"any":     func(float64) float64 { return math.Float64frombits(r.Uint64()) },
		"few":     func(float64) float64 { return []float64{0, 1, math.NaN(), math.Copysign(0, -1), 1e300}[r.IntN(5)] },
	} {
		var times []int64
		var values []float64
		v := 0.0
		for k := range int64(1000) {
			v = next(v)
			times, values = append(times, k*600_000+int64(r.IntN(5))), append(values, v)
		}
		data := AppendTightXOR(nil, times, values)
		c, err := chunkenc.FromData(chunkenc.EncXOR, data)
		require.NoError(t, err)
		it := c.Iterator(nil)
		for i := range times {
			require.Equal(t, chunkenc.ValFloat, it.Next(), name)
			at, got := it.At()
			require.Equal(t, times[i], at, name)
			require.Equal(t, math.Float64bits(values[i]), math.Float64bits(got), name)
		}
		require.Equal(t, chunkenc.ValNone, it.Next())
		require.Less(t, len(data), len(AppendXOR(nil, times, values)), name)
	}
}
