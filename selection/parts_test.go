package selection

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// TestSeriesOfManyParts: selections that have few series in common are joined in a time
// that does not grow with the square of their number.
func TestSeriesOfManyParts(t *testing.T) {
	const n, each = 200, 300
	parts := make([]*Selection, n)
	for p := range parts {
		b := NewBuilder(0)
		for i := range each {
			l := labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%09d", i*n+p))
			if i%10 == 0 {
				l = labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%09d", i*n))
			}
			b.Series(l)
			add(t, b, chunkenc.EncXOR, []int64{int64(p)}, rising)
		}
		parts[p] = finish(t, b)
	}
	order := newPartsOrder(parts)
	var last labels.Labels
	series, all := 0, 0
	for {
		have := order.least()
		if len(have) == 0 {
			break
		}
		l := parts[have[0]].series[order.next[have[0]]]
		require.True(t, series == 0 || labels.Compare(last, l) < 0)
		last = l
		for k, p := range have {
			require.True(t, k == 0 || have[k-1] < p)
			require.True(t, labels.Equal(l, parts[p].series[order.next[p]]))
		}
		series++
		all += len(have)
		order.advance()
	}
	require.NotNil(t, order.heap)
	require.Equal(t, n*each, all)
	require.Equal(t, n*each*9/10+each/10, series)
	s := mustJoin(t, parts...)
	require.Equal(t, series, s.NumSeries())
	require.EqualValues(t, all, s.NumSamples())
}
