package samples

import (
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/yield"
)

// TestLayersForgetHints: whether a histogram is a reset of the one before it is
// only known within a source.
func TestLayersForgetHints(t *testing.T) {
	histograms := func(e chunkenc.Encoding, times ...int64) layer {
		c, err := chunkenc.FromData(e, encode(t, e, times, rising))
		require.NoError(t, err)
		return layer{Iterator: c.Iterator(nil)}
	}
	const not, unknown = histogram.NotCounterReset, histogram.UnknownCounterReset
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram} {
		it := &layers{watch: &yield.Watch{}, all: []layer{histograms(e, 100, 200, 300, 600), histograms(e, 100, 200, 400, 500)}}
		var got []histogram.CounterResetHint
		for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
			if v == chunkenc.ValHistogram {
				_, h := it.AtHistogram(nil)
				got = append(got, h.CounterResetHint)
				continue
			}
			_, h := it.AtFloatHistogram(nil)
			got = append(got, h.CounterResetHint)
		}
		require.NoError(t, it.Err())
		require.Equal(t, []histogram.CounterResetHint{unknown, not, not, unknown, not, unknown}, got)
	}
}
