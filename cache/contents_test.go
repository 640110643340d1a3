package cache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// TestContents: what is kept of each selector is listed with its stretches, in memory and in files;
// after a restart what is in files alone.
func TestContents(t *testing.T) {
	path, up := t.TempDir(), newMinutely(t, 3)
	c := onDisk(t, up, path, Options{})
	query(t, c, 70*hour, 75*hour, "m")
	query(t, c, 80*hour, 82*hour, "m")
	query(t, c, 80*hour, 81*hour, "other")
	got := c.Contents(10, func(*selection.Selection) float64 { return 0.5 })
	require.Equal(t, []any{2, testTile.Milliseconds(), horizon}, []any{got.Count, got.Tile, got.Settled})
	require.Equal(t, c.Stats().Bytes, got.Bytes)
	require.Len(t, got.Selectors, 2)
	m := got.Selectors[0]
	require.Equal(t, "m", m.Text)
	require.Equal(t, 3, m.Series)
	require.Equal(t, [][2]int64{{70 * hour, 76 * hour}, {80 * hour, 84 * hour}}, m.Memory)
	require.EqualValues(t, 3*10*60, m.Samples)
	require.Positive(t, m.DeviceBytes)
	require.Less(t, m.DeviceBytes, m.Bytes)
	require.Equal(t, "other", got.Selectors[1].Text)
	require.Greater(t, m.Bytes, got.Selectors[1].Bytes)
	require.Len(t, c.Contents(1, nil).Selectors, 1)
	require.Equal(t, 2, c.Contents(1, nil).Count)
	require.NoError(t, c.Close())

	c = onDisk(t, up, path, Options{})
	got = c.Contents(10, nil)
	require.Equal(t, 2, got.Count)
	require.Equal(t, got.DiskBytes, got.Selectors[0].DiskBytes+got.Selectors[1].DiskBytes)
	require.Equal(t, m.Memory, got.Selectors[0].Disk)
	require.Zero(t, got.Selectors[0].Bytes)
	require.Nil(t, got.Selectors[0].Memory)
}

// TestSamplesSelected: what a query selects is counted in the statistics that its context carries.
func TestSamplesSelected(t *testing.T) {
	c := New(newMinutely(t, 3), Options{Tile: testTile, Now: at(now), HostBytes: DefaultHostBytes})
	for range 2 { // fetched, then from memory
		q, err := c.Querier(70*hour, 72*hour-1)
		require.NoError(t, err)
		var qs QueryStats
		_, _, err = q.(selection.Querier).SelectChunks(WithStats(t.Context(), &qs), nil, named("m")...)
		require.NoError(t, err)
		require.EqualValues(t, 3*120, qs.Samples.Load())
		require.NoError(t, q.Close())
	}
}
