package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/require"
)

// TestWriteMonth: blocks of 54 h have all samples, and nothing else is left.
func TestWriteMonth(t *testing.T) {
	dir := t.TempDir()
	const series, start, end = 30, 10*block - 6*head, 10*block + 3*head
	require.NoError(t, writeMonth(t.Context(), dir, series, start, end))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	samples := uint64(0)
	for _, e := range entries {
		b, err := tsdb.OpenBlock(nil, filepath.Join(dir, e.Name()), nil, nil)
		require.NoError(t, err)
		require.EqualValues(t, series, b.Meta().Stats.NumSeries)
		require.Equal(t, b.MinTime()/block, (b.MaxTime()-1)/block)
		samples += b.Meta().Stats.NumSamples
		require.NoError(t, b.Close())
	}
	require.EqualValues(t, series*(end-start)/interval, samples)
}
