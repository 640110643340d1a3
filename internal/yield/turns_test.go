package yield

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// onOneCore runs a test where two have a turn at once.
func onOneCore(t *testing.T, f func(t *testing.T)) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

// TestFewAtOnce: of ten goroutines that work, two have a turn, and all get as many.
func TestFewAtOnce(t *testing.T) {
	onOneCore(t, func(t *testing.T) {
		var all turns
		var ready, most atomic.Int32
		var had [10]atomic.Int32
		for i := range had {
			go func() {
				var mine uint64
				for range 20 {
					mine = all.next(mine, nil)
					all.start(mine)
					most.Store(max(most.Load(), ready.Add(1)))
					time.Sleep(time.Millisecond) // its work
					had[i].Add(1)
					ready.Add(-1)
				}
				all.leave(mine)
			}()
		}
		time.Sleep(50*time.Millisecond + time.Microsecond)
		synctest.Wait()
		for i := range had {
			require.EqualValues(t, 10, had[i].Load())
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 2, most.Load())
		require.Empty(t, all.had)
		require.Empty(t, all.waiting)
	})
}

// TestLostTurns: who waits for something else with a turn holds up nobody for long, and has
// none when it comes back.
func TestLostTurns(t *testing.T) {
	onOneCore(t, func(t *testing.T) {
		var all turns
		first := all.next(0, nil)
		time.Sleep(time.Hour) // before it has a core
		all.start(first)
		begun := time.Now()
		other := all.next(0, nil)
		waited := make(chan uint64, 1)
		go func() { waited <- all.next(0, nil) }()
		time.Sleep(lost - time.Millisecond)
		synctest.Wait()
		require.Empty(t, waited)
		time.Sleep(time.Millisecond)
		second := <-waited

		back := make(chan uint64)
		go func() { back <- all.next(first, nil) }()
		synctest.Wait()
		require.Len(t, all.waiting, 1)
		all.leave(second)
		third := <-back
		require.Equal(t, lost, time.Since(begun))
		all.leave(first) // again, which ends no other's
		require.Equal(t, []turn{{number: other}, {number: third}}, all.had)
	})
}

// TestAloneKeepsTurn: where nobody waits a turn is followed by the next at once.
func TestAloneKeepsTurn(t *testing.T) {
	onOneCore(t, func(t *testing.T) {
		var all turns
		mine := all.next(0, nil)
		for range 5 {
			again := all.next(mine, nil)
			require.NotEqual(t, mine, again)
			mine = again
			require.Len(t, all.had, 1)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	var all turns
	var mine uint64
	for b.Loop() {
		mine = all.next(mine, nil)
	}
}

// TestNoTurnToStop: who is to stop does not wait for a turn, and leaves none behind.
func TestNoTurnToStop(t *testing.T) {
	onOneCore(t, func(t *testing.T) {
		var all turns
		first, second := all.next(0, nil), all.next(0, nil)
		over := make(chan struct{})
		got := make(chan uint64)
		go func() { got <- all.next(0, over) }()
		synctest.Wait()
		require.Len(t, all.waiting, 1)
		close(over)
		require.Zero(t, <-got)
		require.Empty(t, all.waiting)
		all.leave(first)
		require.NotZero(t, all.next(0, over), "there is one")
		require.Len(t, all.had, 2)
		all.leave(second)
	})
}
