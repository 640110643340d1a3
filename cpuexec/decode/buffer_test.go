package decode

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestReadNamesCorruptSeries: a chunk whose samples do not fit its stated range
// or that does not decode fails the read and names the series.
func TestReadNamesCorruptSeries(t *testing.T) {
	ts, vs := []int64{1000, 2000, 3000}, []float64{1, 2, 3}
	good := selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)
	for name, c := range map[string]struct {
		mint, maxt int64
		b          []byte
	}{
		"cut":        {1000, 3000, good[:len(good)-2]},
		"early":      {1500, 3000, good},
		"late":       {1000, 2500, good},
		"garbage":    {1000, 3000, []byte{0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}},
		"xor2 short": {1000, 3000, nil},
	} {
		t.Run(name, func(t *testing.T) {
			enc := chunkenc.EncXOR
			if c.b == nil {
				enc, c.b = chunkenc.EncXOR2, []byte{0, 5, 0, 1}
			}
			b := selection.NewBuilder(0)
			b.Series(labels.FromStrings("__name__", "m", "a", "b"))
			require.NoError(t, b.Chunk(enc, c.mint, c.maxt, c.b))
			s, err := b.Finish()
			require.NoError(t, err)
			var cols Buffer
			_, err = cols.Read(s, 0, s.Chunks(0), true)
			var corrupt *selection.CorruptError
			require.ErrorAs(t, err, &corrupt)
			require.ErrorContains(t, err, `{__name__="m", a="b"}`)
		})
	}
}
