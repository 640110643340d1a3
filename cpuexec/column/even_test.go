package column

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Irregular times have no runs worth keeping.
func TestUnevenTimes(t *testing.T) {
	var ts []int64
	for i := range int64(1000) {
		ts = append(ts, i*i*15_000)
	}
	require.Empty(t, findRuns(ts))
	for i := range ts {
		ts[i] = int64(i+i/500) * 15_000
	}
	even := EvenRuns{{0, 500, 0, 15_000, 0}, {500, 1000, 501 * 15_000, 15_000, 0}}
	require.Equal(t, Runs{Even: even}, findRuns(ts))
	require.Equal(t, even, EvenRuns(nil).Add(ts))
	late := make([]uint16, len(ts))
	for i := range ts {
		late[i] = uint16(i * 7 % 4)
		ts[i] += int64(late[i])
	}
	even[0].Late, even[1].Late = 3, 3
	require.Equal(t, Runs{even, late}, findRuns(ts))
	require.Equal(t, ts[500], Runs{even, late}.At(1, 500))
}
