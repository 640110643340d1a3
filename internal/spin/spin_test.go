package spin

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLock: one at a time holds the mutex, those that are put to sleep for it, too.
func TestLock(t *testing.T) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	holders, n := 0, 0
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				Lock(&mu)
				holders++
				if n++; i%50 == 0 {
					time.Sleep(time.Millisecond) // far longer than anybody looks
				}
				if holders != 1 {
					t.Error("two hold it")
				}
				holders--
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1600, n)
}

// TestOnce: what is to be done once is done once and by then, for all who ask, and again behind a
// reset.
func TestOnce(t *testing.T) {
	var o Once
	for range 300 {
		var calls atomic.Int32
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				<-start
				o.Do(func() {
					pause(1000)
					calls.Add(1)
				})
				if n := calls.Load(); n != 1 {
					t.Errorf("%d calls", n)
				}
			})
		}
		close(start)
		wg.Wait()
		o.Reset()
	}
}

// TestOncePanics: a panic counts as done, and holds nobody up.
func TestOncePanics(t *testing.T) {
	var o Once
	require.Panics(t, func() { o.Do(func() { panic("a bug") }) })
	o.Do(func() { t.Error("called again") })
}

// TestUntil: until looks often, but not for ever.
func TestUntil(t *testing.T) {
	n := 0
	require.True(t, Until(func() bool { n++; return n == 2 || !several }))
	n = 0
	require.False(t, Until(func() bool { n++; return false }))
	require.LessOrEqual(t, n, looks)
	require.Positive(t, n)
}
