package yield

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOthersHaveTheCore: on one core, work that passes a point yields again and again, and a
// goroutine that waits for the core has a turn most times; without yields it would have one in
// ten, when the runtime takes the core away.
func TestOthersHaveTheCore(t *testing.T) {
	const wanted = 100
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var p Point
	turns, yields := 0, 0
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				turns++
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
	require.GreaterOrEqual(t, turns, wanted/2)
}

// TestLooksAtTheClockSeldom: short steps are counted, not timed.
func TestLooksAtTheClockSeldom(t *testing.T) {
	var p Point
	now := time.Now()
	p.look(now)
	require.Zero(t, p.skip)
	now = now.Add(time.Microsecond)
	p.look(now)
	require.Equal(t, 250, p.skip, "a quarter of a millisecond at 1 us a step")
	now = now.Add(250 * time.Microsecond)
	p.look(now)
	require.InDelta(t, 250, p.skip, 2)
	p.look(now.Add(10 * time.Millisecond))
	require.Less(t, p.skip, 10, "steps have become longer")
}

func BenchmarkPass(b *testing.B) {
	var p Point
	for b.Loop() {
		p.Pass()
	}
}
