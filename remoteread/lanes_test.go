package remoteread

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func asking(length time.Duration) question {
	return question{piece: piece{span: span{mint: 0, maxt: length.Milliseconds()}}}
}

// TestLanes: small requests go before large ones that came before them, and large ones now
// and then.
func TestLanes(t *testing.T) {
	l := newLanes(1)
	require.NoError(t, l.enter(t.Context(), asking(24*time.Hour)))
	waiting := func() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.small) + len(l.large) }
	gone := make(chan string)
	start := func(name string, length time.Duration) {
		n := waiting()
		go func() {
			if l.enter(context.Background(), asking(length)) == nil {
				gone <- name
			}
		}()
		require.Eventually(t, func() bool { return waiting() == n+1 }, 5*time.Second, 100*time.Microsecond)
	}
	for range 3 {
		start("large", 24*time.Hour)
	}
	for range 10 {
		start("small", 5*time.Minute)
	}
	var order []string
	for range 13 {
		l.leave()
		order = append(order, <-gone)
	}
	l.leave()
	want := []string{"small", "small", "small", "small", "small", "small", "small", "small", "large", "small", "small", "large", "large"}
	require.Equal(t, want, order)
	require.Equal(t, 1, l.free)
}

// TestLanesAreLeft: who gives up waiting takes no place, whenever that is.
func TestLanesAreLeft(t *testing.T) {
	l := newLanes(2)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
			defer cancel()
			if l.enter(ctx, asking(time.Duration(i%2)*time.Hour)) == nil {
				time.Sleep(50 * time.Microsecond)
				l.leave()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 2, l.free)
	require.Empty(t, l.small)
	require.Empty(t, l.large)
}
