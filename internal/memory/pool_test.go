package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

// TestLease: leases take what is there, and what they give back others can take.
func TestLease(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: time.Millisecond}) // 80 for leases
	a, b := p.Lease(Evaluation), p.Lease(Answers)
	require.NoError(t, a.Grow(t.Context(), 50*mib))
	require.NoError(t, b.Grow(t.Context(), 20*mib))
	require.Equal(t, map[string]int64{"fetched": 0, "evaluation": 50 * mib, "answers": 20 * mib, "requests": 0}, p.Parts())

	err := b.Grow(t.Context(), 20*mib)
	require.ErrorAs(t, err, new(*BusyError))
	require.ErrorContains(t, err, "too little of --memory.limit=100 MiB is left, and promwarp_memory_bytes")
	require.True(t, Exhausted(err))
	require.EqualValues(t, 1, p.Refused()["answers"])
	b.Release()
	require.NoError(t, b.Grow(t.Context(), 20*mib))
	a.Shrink(10 * mib)
	require.NoError(t, b.Grow(t.Context(), 50*mib))
	a.Release()
	require.EqualValues(t, 70*mib, p.Used())

	err = b.Grow(t.Context(), 20*mib)
	require.ErrorAs(t, err, new(*TooLargeError), "more than there could be")
	require.True(t, Exhausted(err))
	b.Release()
	require.Zero(t, p.Used())

	var none *Pool
	require.NoError(t, none.Lease(Evaluation).Grow(t.Context(), 1<<60))
	none.Lease(Evaluation).Release()
	require.NoError(t, none.Room(t.Context(), Fetched))
	none.Watch("x", func() int64 { return 1 })()
	require.Zero(t, none.Used()+none.Limit())
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1 KiB", mib - 1: "1023 KiB", mib: "1 MiB", 4096*mib + 5: "4096 MiB",
	} {
		require.Equal(t, want, Size(n))
	}
}

// TestLeaseWaits: a lease that does not fit gets what others give back meanwhile, and
// waits no longer than its context.
func TestLeaseWaits(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: time.Minute})
	a, b := p.Lease(Evaluation), p.Lease(Evaluation)
	require.NoError(t, a.Grow(t.Context(), 70*mib))
	time.AfterFunc(20*time.Millisecond, a.Release)
	require.NoError(t, b.Grow(t.Context(), 70*mib))

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Grow(ctx, 70*mib), context.DeadlineExceeded)
	b.Release()
	a.Release()
	require.Zero(t, p.Used())
}

// TestCountedAndWatched: what others count is taken from what leases may have, and what
// only the collector can free is looked for before a lease is refused.
func TestCountedAndWatched(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: 2 * time.Second})
	unwatch := p.Watch("cache", func() int64 { return 30 * mib })
	garbage := func() {
		b := new([mib]byte)
		p.Count(Fetched, 40*mib)
		runtime.AddCleanup(b, func(n int64) { p.Count(Fetched, -n) }, int64(40*mib))
	}
	garbage()
	require.EqualValues(t, 70*mib, p.Parts()["cache"]+p.Parts()["fetched"])
	l := p.Lease(Evaluation)
	require.NoError(t, l.Grow(t.Context(), 45*mib))
	require.Zero(t, p.Parts()["fetched"])
	unwatch()
	require.EqualValues(t, 45*mib, p.Parts()["evaluation"])
	require.NotContains(t, p.Parts(), "cache")

	p.SetLimit(50 * mib)
	require.ErrorAs(t, p.Room(t.Context(), Fetched), new(*BusyError))
	l.Release()
	require.NoError(t, p.Room(t.Context(), Fetched))
}

// TestManyLeases: whatever many do at once, no more than there is is taken, and in the end
// nothing.
func TestManyLeases(t *testing.T) {
	p := New(Options{Limit: 100 * mib, Wait: time.Millisecond})
	var wg sync.WaitGroup
	var refused, granted sync.Map
	var first sync.WaitGroup
	first.Add(16)
	for n := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			l := p.Lease(Evaluation)
			defer l.Release()
			if l.Grow(t.Context(), 8*mib) != nil { // not all can
				refused.Store(n, true)
			}
			first.Done()
			first.Wait()
			for range 300 {
				err := l.Grow(t.Context(), r.Int64N(8*mib))
				switch {
				case err == nil:
					granted.Store(n, true)
				case errors.As(err, new(*BusyError)):
					refused.Store(n, true)
				}
				if used := l.held.Load(); used > 80*mib {
					t.Errorf("one lease holds %d bytes", used)
				}
				if err != nil || r.IntN(3) == 0 {
					l.Shrink(r.Int64N(mib))
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, p.Used())
	count := func(m *sync.Map) (n int) {
		m.Range(func(_, _ any) bool { n++; return true })
		return n
	}
	require.Equal(t, 16, count(&granted))
	require.Positive(t, count(&refused))
}

// TestSmallLeases: when large leases hold all the memory, small ones have a reserve, and only
// as long as they are small.
func TestSmallLeases(t *testing.T) {
	p := New(Options{Limit: 160 * mib, Wait: time.Millisecond}) // 128 for leases, 10 more for small ones
	large := p.Lease(Evaluation)
	require.NoError(t, large.Grow(t.Context(), 128*mib))
	require.ErrorAs(t, p.Lease(Evaluation).Grow(t.Context(), 2*mib), new(*BusyError))
	var all []*Lease
	for range 10 {
		l := p.Lease(Evaluation)
		require.NoError(t, l.Grow(t.Context(), mib))
		all = append(all, l)
	}
	require.ErrorAs(t, p.Lease(Evaluation).Grow(t.Context(), mib), new(*BusyError), "the reserve is used up")
	require.ErrorAs(t, all[0].Grow(t.Context(), 1), new(*BusyError), "it is not small any more")
	for _, l := range append(all, large) {
		l.Release()
	}
	require.Zero(t, p.Used())

	// What a large one waits for is not in the way of small ones.
	p.wait = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, large.Grow(t.Context(), 120*mib))
	failed := make(chan error)
	go func() { failed <- p.Lease(Evaluation).Grow(ctx, 100*mib) }()
	require.Eventually(t, func() bool { return p.waiting.Load() == 1 }, 20*time.Second, time.Millisecond)
	require.NoError(t, all[0].Grow(t.Context(), mib))
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
}

// TestSpare: what nobody asked for gets what is left and no more, has nobody wait or free memory, and
// gets nothing while somebody waits.
func TestSpare(t *testing.T) {
	p := New(Options{Limit: 100 << 20, Wait: time.Minute})
	end := p.OnShortage(0, func(int64) int64 { t.Error("caches give way to nobody's request"); return 0 })
	require.True(t, p.Spare(Evaluation, 50<<20))
	require.Equal(t, int64(50<<20), p.Used())
	require.False(t, p.Spare(Evaluation, 40<<20))
	require.Equal(t, int64(50<<20), p.Used())
	require.Zero(t, p.Refused()[string(Evaluation)])
	require.Zero(t, p.Uses())
	p.Count(Evaluation, -50<<20)
	end()

	p.Count(Fetched, 70<<20)
	waits := p.Lease(Answers)
	got := make(chan error, 1)
	go func() { got <- waits.Grow(t.Context(), 20<<20) }()
	require.Eventually(t, func() bool { return p.waiting.Load() > 0 }, time.Minute, time.Millisecond)
	require.False(t, p.Spare(Evaluation, 1))
	p.Count(Fetched, -70<<20)
	require.NoError(t, <-got)
	require.True(t, (*Pool)(nil).Spare(Evaluation, 1))
}

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
