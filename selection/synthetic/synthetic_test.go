package synthetic

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

func TestCounters(t *testing.T) {
	s, err := Counters("m_total", distinct+3, 2*ChunkSamples+1)
	require.NoError(t, err)
	require.Equal(t, distinct+3, s.NumSeries())
	require.Equal(t, int64(distinct+3)*(2*ChunkSamples+1), s.NumSamples())
	for i := 1; i < s.NumSeries(); i++ {
		require.Negative(t, labels.Compare(s.Labels(i-1), s.Labels(i)), "in order")
	}
	require.Len(t, s.Chunks(1), 3)
	require.Equal(t, s.Bytes(s.Chunks(1)[2]), s.Bytes(s.Chunks(distinct + 1)[2]), "the same samples")
	require.NotEqual(t, s.Bytes(s.Chunks(1)[0]), s.Bytes(s.Chunks(2)[0]))

	last := 0.0
	for _, c := range s.Chunks(7) {
		chunk, err := chunkenc.FromData(c.Enc, s.Bytes(c))
		require.NoError(t, err)
		for it := chunk.Iterator(nil); it.Next() != chunkenc.ValNone; {
			at, v := it.At()
			require.True(t, c.MinT <= at && at <= c.MaxT)
			require.GreaterOrEqual(t, v, last)
			last = v
		}
	}
	require.Positive(t, last)
}

func TestNothing(t *testing.T) {
	s, err := Counters("m_total", 0, 10)
	require.NoError(t, err)
	require.Zero(t, s.NumSeries())
}
