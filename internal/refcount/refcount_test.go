package refcount

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLastReleaseCloses(t *testing.T) {
	var closed atomic.Int32
	c := New(func() { closed.Add(1) })
	var wg sync.WaitGroup
	for range 50 {
		require.True(t, c.Hold())
		wg.Go(c.Release)
	}
	wg.Wait()
	require.Equal(t, 1, c.users)
	require.Zero(t, closed.Load())
	c.Release()
	require.EqualValues(t, 1, closed.Load())
	require.False(t, c.Hold(), "nobody can come back")

	c = New(nil)
	c.OnClose(func() { closed.Add(1) })
	c.Release()
	require.EqualValues(t, 2, closed.Load())
	New(nil).Release()
}
