package samples

import (
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

func TestOverlappingCorruptChunks(t *testing.T) {
	for _, bad := range []int{0, 1, 2} {
		w := NewWriter(t.Context(), 0, 0)
		w.Series(name(0))
		for k := range 3 {
			data := encode(t, chunkenc.EncXOR, timesBetween(0, 900, 100), rising)
			if k == bad {
				data = data[:len(data)-3]
			}
			require.NoError(t, w.Chunk(chunkenc.EncXOR, 0, 900+int64(k), data))
		}
		_, err := w.Separate(name(0), w.Slabs(), w.Chunks)
		var ce *CorruptError
		require.ErrorAs(t, err, &ce, bad)
		require.Equal(t, name(0), ce.Series)
	}
}
