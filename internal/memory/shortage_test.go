package memory

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeCache holds memory of a pool that no request needs.
type fakeCache struct {
	pool  *Pool
	held  atomic.Int64
	asked []int64 // bytes, call by call
	calls atomic.Int64
}

// cacheOf returns one that holds n bytes.
func cacheOf(p *Pool, n int64) *fakeCache {
	c := &fakeCache{pool: p}
	c.fill(n)
	return c
}

func (c *fakeCache) fill(n int64) {
	c.held.Add(n)
	c.pool.Count(Fetched, n)
}

// reclaim gives back what is asked for, as far as there is any. Two calls at once are a race.
func (c *fakeCache) reclaim(bytes int64) int64 {
	c.calls.Add(1)
	c.asked = append(c.asked, bytes)
	n := min(bytes, c.held.Load())
	c.held.Add(-n)
	c.pool.Count(Fetched, -n)
	return n
}

// TestShortage: a lease that does not fit gets what a cache holds, no more of it than it
// needs or a 64th of the limit, and the cache may take it again.
func TestShortage(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: time.Millisecond}) // 80 for leases
	c := cacheOf(p, 70*mib)
	end := p.OnShortage(0, c.reclaim)
	l := p.Lease(Evaluation)
	require.NoError(t, l.Grow(t.Context(), 10*mib))
	require.Empty(t, c.asked, "there was room")
	require.NoError(t, l.Grow(t.Context(), mib/2))
	require.Equal(t, []int64{100 * mib / reclaimShare}, c.asked)
	c.asked = nil
	require.NoError(t, l.Grow(t.Context(), 30*mib))
	require.Len(t, c.asked, 1)
	require.EqualValues(t, 80*mib, l.taken.Load()+c.held.Load(), "no more than it needs")
	require.Equal(t, 70*mib-c.held.Load(), p.Reclaimed())
	require.Empty(t, p.Refused()["evaluation"])

	l.Release()
	c.fill(60*mib - c.held.Load())
	require.NoError(t, l.Grow(t.Context(), 80*mib), "all of it")
	require.Zero(t, c.held.Load())
	require.ErrorAs(t, p.Lease(Answers).Grow(t.Context(), 2*mib), new(*BusyError), "nothing is left")

	l.Release()
	c.fill(70 * mib)
	end()
	require.ErrorAs(t, l.Grow(t.Context(), 20*mib), new(*BusyError), "it is asked no more")
	require.EqualValues(t, 70*mib, c.held.Load())
	(*Pool)(nil).OnShortage(0, nil)()
	require.Zero(t, (*Pool)(nil).Reclaimed())
}

// TestShortageRanks: those of a lower rank are asked first; those of one rank in turn.
func TestShortageRanks(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: time.Millisecond})
	last, first := cacheOf(p, 20*mib), cacheOf(p, 10*mib)
	small, large := cacheOf(p, 2*mib), cacheOf(p, 30*mib)
	p.OnShortage(7, last.reclaim)
	p.OnShortage(0, first.reclaim)
	p.OnShortage(3, small.reclaim)
	p.OnShortage(3, large.reclaim)
	l := p.Lease(Evaluation)
	require.NoError(t, l.Grow(t.Context(), 26*mib))
	require.EqualValues(t, 2*mib, first.held.Load())
	require.Empty(t, small.asked)
	require.NoError(t, l.Grow(t.Context(), 10*mib))
	require.Zero(t, first.held.Load())
	require.Zero(t, small.held.Load())
	require.EqualValues(t, 24*mib+l.taken.Load()-36*mib, large.held.Load())
	require.Empty(t, last.asked)
	require.EqualValues(t, 20*mib, last.held.Load())

	p = New(Options{Limit: 100 * mib, Wait: time.Millisecond})
	one, other := cacheOf(p, 40*mib), cacheOf(p, 40*mib)
	p.OnShortage(3, one.reclaim)
	p.OnShortage(3, other.reclaim)
	l = p.Lease(Evaluation)
	require.NoError(t, l.Grow(t.Context(), 5*mib))
	require.NoError(t, l.Grow(t.Context(), 5*mib))
	require.EqualValues(t, 35*mib, one.held.Load())
	require.EqualValues(t, 35*mib, other.held.Load())
}

// TestShortageDeadline: who waits for a cache that is slow to give way leaves when its time
// is up, and others get what comes later.
func TestShortageDeadline(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: time.Millisecond})
	c := cacheOf(p, 70*mib)
	began, going := make(chan struct{}), make(chan struct{})
	p.OnShortage(0, func(bytes int64) int64 {
		close(began)
		<-going
		return c.reclaim(bytes)
	})
	ctx, cancel := context.WithCancel(t.Context())
	early := make(chan error)
	go func() { early <- p.Lease(Evaluation).Grow(ctx, 20*mib) }()
	<-began
	cancel()
	require.ErrorIs(t, <-early, context.Canceled)
	late := make(chan error)
	go func() { late <- p.Lease(Evaluation).Grow(t.Context(), 20*mib) }()
	require.Eventually(t, func() bool { return p.waiting.Load() == 1 }, 10*time.Second, time.Millisecond)
	close(going)
	require.NoError(t, <-late)
	require.EqualValues(t, 1, c.calls.Load())
}

// TestShortageConcurrently: leases and a cache that fills up again take turns, and in the end
// nothing is lost.
func TestShortageConcurrently(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: 10 * time.Second})
	c := cacheOf(p, 0)
	p.OnShortage(0, c.reclaim)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(n)))
			for range 10 {
				l := p.Lease(Evaluation)
				if err := l.Grow(t.Context(), 10*mib+r.Int64N(5*mib)); err != nil {
					t.Error(err)
				}
				l.Release()
				c.fill(r.Int64N(20 * mib))
			}
		})
	}
	all.Wait()
	require.Positive(t, p.Reclaimed())
	require.Equal(t, c.held.Load(), p.Used())
}
