package selection

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// TestSamplesAbout: where all series have as many samples, their number is right, of all chunks that
// the time touches.
func TestSamplesAbout(t *testing.T) {
	b := NewBuilder(0)
	for i := range 100 {
		b.Series(labels.FromStrings("i", string(rune('a'+i))))
		for from := range int64(3) {
			c := chunkenc.NewXORChunk()
			app, err := c.Appender()
			require.NoError(t, err)
			for k := range int64(10) {
				app.Append(0, 100*from+k, 1)
			}
			require.NoError(t, b.Chunk(chunkenc.EncXOR, 100*from, 100*from+9, c.Bytes()))
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	require.EqualValues(t, 3000, s.SamplesAbout(0, 1000))
	require.EqualValues(t, 2000, s.SamplesAbout(50, 1000))
	require.Zero(t, s.SamplesAbout(1000, 2000))
	require.Zero(t, Empty().SamplesAbout(0, 1))
}
