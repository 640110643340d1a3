package rouse

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRing: each sleeper hears each ring.
func TestRing(t *testing.T) {
	b := start(t, 16)
	for range 200 {
		require.Eventually(t, b.asleep, 10*time.Second, 50*time.Microsecond)
		Cores(16)
	}
	require.Eventually(t, b.asleep, 10*time.Second, 50*time.Microsecond)
}

// TestFewGoroutines: for few goroutines nobody is woken.
func TestFewGoroutines(t *testing.T) {
	b := start(t, 16)
	require.Eventually(t, b.asleep, 10*time.Second, 50*time.Microsecond)
	Cores(3)
	require.True(t, b.asleep())
}

// TestRings: rings at once, and a stop between them, lose no sleeper.
func TestRings(t *testing.T) {
	for range 20 {
		stop, err := Start(16)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					Cores(16)
					runtime.Gosched()
				}
			})
		}
		wg.Wait()
		stop()
	}
}
