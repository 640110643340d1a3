package parallel

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// twoTurns runs a test where two have a turn at once, on a clock of its own.
func twoTurns(t *testing.T, f func(t *testing.T)) {
	all := turns
	defer func() { turns = all }()
	synctest.Test(t, func(t *testing.T) {
		turns = make(chan struct{}, 2)
		f(t)
	})
}

// due returns a watch whose next Pass waits for a turn.
func due(ctx context.Context) *Watch { return &Watch{Ctx: ctx, since: time.Now().Add(-slice)} }

// TestFewAtOnce: of ten goroutines that work, two have a turn, and all get as many.
func TestFewAtOnce(t *testing.T) {
	twoTurns(t, func(t *testing.T) {
		var ready, most atomic.Int32
		var had [10]atomic.Int32
		for i := range had {
			go func() {
				p := due(t.Context())
				for range 20 {
					p.Pass()
					most.Store(max(most.Load(), ready.Add(1)))
					time.Sleep(slice) // its work
					had[i].Add(1)
					ready.Add(-1)
				}
				p.Leave()
			}()
		}
		time.Sleep(50*slice + time.Microsecond)
		synctest.Wait()
		for i := range had {
			require.EqualValues(t, 10, had[i].Load())
		}
		time.Sleep(50 * slice)
		synctest.Wait()
		require.EqualValues(t, 2, most.Load())
		require.Empty(t, turns)
	})
}

// TestLostTurns: who waits for something else with a turn holds up nobody for long, and ends no
// other's when it comes back.
func TestLostTurns(t *testing.T) {
	twoTurns(t, func(t *testing.T) {
		first, second, third := due(t.Context()), due(t.Context()), due(t.Context())
		first.Pass()
		second.Pass()
		begun := time.Now()
		third.Pass()
		require.Equal(t, lost, time.Since(begun))
		synctest.Wait()
		require.Len(t, turns, 1)
		first.Leave()
		second.Leave()
		require.Len(t, turns, 1)
		third.Leave()
		third.Leave()
		require.Empty(t, turns)
	})
}

// TestNoTurnToStop: who is to stop does not wait for a turn, and leaves none behind.
func TestNoTurnToStop(t *testing.T) {
	twoTurns(t, func(t *testing.T) {
		due(t.Context()).Pass()
		due(t.Context()).Pass()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			p := due(ctx)
			p.Pass()
			p.Leave()
			close(ended)
		}()
		synctest.Wait()
		require.Len(t, turns, 2)
		cancel()
		<-ended
		require.Len(t, turns, 2)
		time.Sleep(lost)
		synctest.Wait()
		require.Empty(t, turns)
	})
}

// TestOthersHaveTheCore: on one core, work that passes a point yields again and again, and a
// goroutine that waits for the core has a turn most times; without yields it would have one in
// ten, when the runtime takes the core away.
func TestOthersHaveTheCore(t *testing.T) {
	const wanted = 100
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var p Watch
	had, yields := 0, 0
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				had++
				runtime.Gosched()
			}
		}
	}()
	for yields < wanted {
		for began := time.Now(); time.Since(began) < 20*time.Microsecond; {
		}
		before := p.since
		if p.Pass(); p.since != before {
			yields++
		}
	}
	close(stop)
	<-done
	require.GreaterOrEqual(t, had, wanted/2)
}

// TestSeldomLooks: short steps are counted, and the context is looked at after some of them.
func TestSeldomLooks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := Watch{Ctx: ctx}
	cancel()
	for range watchEvery - 1 {
		require.NoError(t, w.Err())
		require.Zero(t, w.since)
	}
	require.ErrorIs(t, w.Err(), context.Canceled)
	require.NotZero(t, w.since)

	var never Watch
	for range 2 * watchEvery {
		require.NoError(t, never.Err())
	}
	require.Zero(t, Comparing(&w, func(a, b int) int { return a - b })(1, 2), "over")
	require.Equal(t, -1, Comparing(&never, func(a, b int) int { return a - b })(1, 2))
}
