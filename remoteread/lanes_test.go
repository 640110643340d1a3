package remoteread

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLanes: small requests go before large ones that came before them, and large ones now
// and then.
func TestLanes(t *testing.T) {
	l := newLanes(1)
	l.free = [places]int{}
	waiting := func() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.small) + len(l.large) }
	gone := make(chan string)
	start := func(name string, small bool) {
		n := waiting()
		go func() {
			if _, err := l.enter(context.Background(), small); err == nil {
				gone <- name
			}
		}()
		require.Eventually(t, func() bool { return waiting() == n+1 }, 5*time.Second, 100*time.Microsecond)
	}
	for range 3 {
		start("large", false)
	}
	for range 10 {
		start("small", true)
	}
	var order []string
	for range 13 {
		l.leave(shared)
		order = append(order, <-gone)
	}
	l.leave(shared)
	want := []string{"small", "small", "small", "small", "small", "small", "small", "small", "large", "small", "small", "large", "large"}
	require.Equal(t, want, order)
	require.Equal(t, [places]int{shared: 1}, l.free)
}

// TestPlacesForSmall: however many large requests are under way and wait, small ones have
// places, and leave none to large ones.
func TestPlacesForSmall(t *testing.T) {
	l := newLanes(4)
	for range 4 {
		p, err := l.enter(t.Context(), false)
		require.NoError(t, err)
		require.Equal(t, shared, p)
	}
	large := make(chan place)
	go func() {
		p, err := l.enter(context.Background(), false)
		if err == nil {
			large <- p
		}
	}()
	require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.large) == 1 }, 20*time.Second, time.Millisecond)
	for range 3 {
		var held []place
		for range 2 {
			p, err := l.enter(t.Context(), true)
			require.NoError(t, err)
			require.Equal(t, smallOnly, p)
			held = append(held, p)
		}
		for _, p := range held {
			l.leave(p)
		}
	}
	require.Len(t, l.large, 1)
	l.leave(shared)
	require.Equal(t, shared, <-large)
}

// TestLanesAreLeft: who gives up waiting takes no place, whenever that is.
func TestLanesAreLeft(t *testing.T) {
	l := newLanes(2)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
			defer cancel()
			if p, err := l.enter(ctx, i%2 == 0); err == nil {
				time.Sleep(50 * time.Microsecond)
				l.leave(p)
			}
		})
	}
	wg.Wait()
	require.Equal(t, [places]int{shared: 2, smallOnly: 1}, l.free)
	require.Empty(t, l.small)
	require.Empty(t, l.large)
}
