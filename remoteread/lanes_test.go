package remoteread

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// free reports whether nobody has a place.
func (l lanes) free() bool { return len(l.shared)+len(l.small) == 0 }

// TestPlacesForSmall: however many large requests are under way, small ones have places, and leave
// none to large ones.
func TestPlacesForSmall(t *testing.T) {
	l := newLanes(4)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	var large func()
	for range 4 {
		leave, err := l.enter(t.Context(), false)
		require.NoError(t, err)
		large = leave
	}
	for range 3 {
		one, err := l.enter(t.Context(), true)
		require.NoError(t, err)
		two, err := l.enter(t.Context(), true)
		require.NoError(t, err)
		_, err = l.enter(short(), true)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		one()
		_, err = l.enter(short(), false)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		two()
	}
	large()
	_, err := l.enter(t.Context(), false)
	require.NoError(t, err)
}

// TestLanesAreLeft: who gives up waiting takes no place, whenever that is.
func TestLanesAreLeft(t *testing.T) {
	l := newLanes(2)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
			defer cancel()
			if leave, err := l.enter(ctx, i%2 == 0); err == nil {
				time.Sleep(50 * time.Microsecond)
				leave()
			}
		})
	}
	wg.Wait()
	require.True(t, l.free())
}
