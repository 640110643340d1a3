package selection

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
)

// A stale marker does not say that its chunk is of gauge histograms, and is cut with it all
// the same.
func TestCutGaugesWithStaleMarker(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	for _, e := range []chunkenc.Encoding{chunkenc.EncHistogram, chunkenc.EncFloatHistogram, chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST} {
		c, err := chunkenc.NewEmptyChunk(e)
		require.NoError(t, err)
		app, err := c.Appender()
		require.NoError(t, err)
		for ts := int64(1); ts <= 4; ts++ {
			h, fh := tsdbutil.GenerateTestGaugeHistogram(10-ts), tsdbutil.GenerateTestGaugeFloatHistogram(10-ts)
			if ts == 4 {
				h = &histogram.Histogram{Sum: stale, CounterResetHint: histogram.GaugeType}
				fh = &histogram.FloatHistogram{Sum: stale, CounterResetHint: histogram.GaugeType}
			}
			if e == chunkenc.EncHistogram || e == chunkenc.EncHistogramST {
				_, _, app, err = app.AppendHistogram(nil, 0, ts, h, true)
			} else {
				_, _, app, err = app.AppendFloatHistogram(nil, 0, ts, fh, true)
			}
			require.NoError(t, err)
		}
		b := NewBuilder(0)
		b.Series(labels.FromStrings("a", "b"))
		require.NoError(t, b.Chunk(e, 1, 4, c.Bytes()))
		s := finish(t, b)
		for mint := int64(1); mint <= 4; mint++ {
			for maxt := mint; maxt <= 4; maxt++ {
				cut, err := s.Cut(ctx, mint, maxt)
				require.NoError(t, err, "%s from %d to %d", e, mint, maxt)
				requireNormal(t, cut)
				require.Equal(t, 1, cut.NumChunks())
				require.Equal(t, reference(t, s, 0, mint, maxt), reference(t, cut, 0, mint, maxt))
			}
		}
	}
}
