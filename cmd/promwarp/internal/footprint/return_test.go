package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCollectionIsDue: garbage is collected a few looks after the last queries, once.
func TestCollectionIsDue(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	c := collection{latest: 1}
	looks := func(uses int64) (n int) {
		for n = 1; n < 50; n++ {
			if c.look(uses) {
				return n
			}
		}
		return 0
	}
	runtime.GC()
	require.False(t, c.look(1))
	require.Zero(t, looks(1), "nothing was asked since")
	require.Equal(t, 1, looks(2))
	require.Equal(t, 1, looks(2), "it was not collected")

	runtime.GC()
	require.False(t, c.look(3))
	require.Equal(t, idleLooks, looks(3), "it is not known what was asked after the collection")
	runtime.GC()
	require.Zero(t, looks(3))
}
