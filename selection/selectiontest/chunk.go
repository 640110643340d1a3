// Package selectiontest makes chunks for the tests of what reads selections.
package selectiontest

import (
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
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

// Padded returns a copy of b with selection.Pad readable bytes behind its end.
func Padded(b []byte) []byte {
	out := make([]byte, len(b), len(b)+selection.Pad)
	copy(out, b)
	return out
}
