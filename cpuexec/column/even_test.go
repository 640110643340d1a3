package column

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Irregular times have no runs worth keeping.
func TestUnevenTimes(t *testing.T) {
	var ts []int64
	for i := range int64(1000) {
		ts = append(ts, i*15_000+i%3)
	}
	require.Nil(t, findRuns(ts))
	for i := range ts {
		ts[i] = int64(i+i/500) * 15_000
	}
	require.Equal(t, EvenRuns{{0, 500, 0, 15_000}, {500, 1000, 501 * 15_000, 15_000}}, findRuns(ts))
	require.Equal(t, EvenRuns(nil).Add(ts), findRuns(ts))
}
