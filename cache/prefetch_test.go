package cache

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// Selectors that are asked for again and again with the newest samples are kept
// up to date without further queries, for some hours; others are not.
func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newMinutely(t, 3)
		start := time.Now()
		c := New(up, Options{
			HostBytes: DefaultHostBytes, Tile: 20 * time.Minute, Now: func() time.Time { return time.UnixMilli(now).Add(time.Since(start)) },
			Prefetch: Budget{Requests: 1},
		})
		defer func() { require.NoError(t, c.Close()) }()
		ms := func() int64 { return c.now().UnixMilli() }
		for range 5 {
			query(t, c, ms()-6*hour, ms(), "often")
			query(t, c, ms()-6*hour, ms()-hour, "past")
			time.Sleep(5 * time.Minute)
		}
		query(t, c, ms()-6*hour, ms(), "once")
		up.asked()
		time.Sleep(2 * time.Hour)
		require.Len(t, up.asked(), 6, "a tile each 20 minutes")
		query(t, c, ms()-6*hour, ms(), "often")
		require.Equal(t, []request{{c.moment().Settled.To, ms()}}, up.asked(), "only what is too new to be kept")
		time.Sleep(24 * time.Hour)
		require.Less(t, len(up.asked()), 6*3, "it is forgotten")
		require.Positive(t, counted(c.metrics.prefetched))
		require.NoError(t, c.Close())
		time.Sleep(time.Hour)
		require.Empty(t, up.asked())
	})
}

// What is young is fetched again before it is too old, so that each look at a dashboard
// fetches no more than what has come since the one before; as long as there are looks.
func TestPrefetchYoung(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		t.Run(fmt.Sprintf("ahead=%v", ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				clock := func() time.Time { return time.UnixMilli(now).Add(time.Since(start)) }
				up := having(func(mint, maxt int64) *selection.Selection {
					return minutely(t, 3, mint, min(maxt, clock().UnixMilli()))
				})
				o := Options{HostBytes: DefaultHostBytes, Tile: 30 * time.Minute, Fresh: 10 * time.Minute, Recheck: 5 * time.Minute, Now: clock}
				if ahead {
					o.Prefetch = Budget{Requests: 10}
				}
				c := New(up, o)
				defer func() { require.NoError(t, c.Close()) }()
				ms := func() int64 { return clock().UnixMilli() }
				time.Sleep(7 * time.Second) // not when what is to be prefetched is looked for
				wide, behind := 0, 0        // looks that fetched more, and fetches behind their backs
				for i := range 60 {
					time.Sleep(time.Minute)
					behind += len(up.asked())
					requireMinutely(t, query(t, c, ms()-6*hour, ms(), "m"), 3, ms()-6*hour, ms())
					for _, r := range up.asked() {
						if i > 2 && r.mint < ms()-3*hour/60 {
							wide++
						}
					}
				}
				if !ahead {
					require.Greater(t, wide, 8)
					require.Zero(t, behind)
					return
				}
				require.Zero(t, wide)
				require.GreaterOrEqual(t, behind, 60/5)
				require.LessOrEqual(t, behind, 60/3)
				time.Sleep(11 * time.Minute)
				up.asked()
				time.Sleep(time.Hour)
				require.Len(t, up.asked(), 2, "a tile each half an hour")
			})
		})
	}
}

// The upstream gets no more than the budget allows, and is left alone when it
// fails.
func TestPrefetchBudget(t *testing.T) {
	for _, test := range []struct {
		name    string
		budget  Budget
		takes   time.Duration // a request
		fails   bool
		most    int // requests at once
		seconds float64
		asked   int
	}{
		{"requests", Budget{Requests: 2}, 0, false, 1, 9.5, 20},
		{"one", Budget{Requests: 1000}, time.Second, false, 1, 20, 20},
		{"bytes", Budget{Requests: 1000, Bytes: 10}, 0, false, 1, 100, 20},
		{"failing", Budget{Requests: 1000}, 0, true, 1, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var inside, most atomic.Int64
				var fails atomic.Bool
				up := &fake{}
				up.fetch = func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
					if n := inside.Add(1); n > most.Load() {
						most.Store(n)
					}
					defer inside.Add(-1)
					time.Sleep(test.takes)
					if fails.Load() {
						return nil, nil, errUpstream
					}
					return minutely(t, 1, mint, maxt), nil, nil
				}
				var clock atomic.Int64
				clock.Store(now)
				c := New(up, Options{HostBytes: DefaultHostBytes, Tile: 20 * time.Minute, Now: func() time.Time { return time.UnixMilli(clock.Load()) }})
				for i := range 20 {
					for range 2 {
						query(t, c, now-hour, now, fmt.Sprint("m", i))
					}
				}
				up.asked()
				most.Store(0)
				clock.Add(20 * 60_000)
				fails.Store(test.fails)
				p := &prefetcher{c: c, Budget: test.budget}
				start := time.Now()
				_ = p.round(t.Context())
				took := time.Since(start).Seconds()
				require.Len(t, up.asked(), test.asked)
				require.LessOrEqual(t, most.Load(), int64(test.most))
				require.GreaterOrEqual(t, took, test.seconds)
				_ = p.round(t.Context())
				require.Len(t, up.asked(), test.asked%20, "all are up to date, or the next one fails, too")
			})
		})
	}
}

func TestPrefetchedIsKeptAsItsNeighbours(t *testing.T) {
	up := newMinutely(t, 10)
	limit := 3 * sizeOfOne(t, 10)
	c, clock := ticking(t, up, limit)
	for range 20 {
		query(t, c, *clock-10*hour, *clock, "m")
	}
	for i := range 10 {
		query(t, c, 10*hour, 30*hour-1, fmt.Sprint("scan", i))
	}
	*clock += 2 * hour
	require.Len(t, c.wanted(), 1)
	p := &prefetcher{c: c, Budget: Budget{Requests: 1e9}}
	_ = p.round(t.Context())
	require.Empty(t, c.wanted())
	up.asked()
	query(t, c, *clock-10*hour, c.moment().Settled.To-1, "m")
	require.Empty(t, up.asked())
}

// TestCloseEndsPrefetching: what is being fetched ahead ends at once when the cache is closed,
// however long the upstream takes.
func TestCloseEndsPrefetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newMinutely(t, 3)
		var hangs atomic.Bool
		var inside atomic.Int64
		up := &fake{fetch: func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
			if hangs.Load() {
				inside.Add(1)
				defer inside.Add(-1)
				<-ctx.Done()
				return nil, nil, ctx.Err()
			}
			return inner.fetch(ctx, mint, maxt)
		}}
		start := time.Now()
		c := New(up, Options{
			HostBytes: DefaultHostBytes, Tile: 20 * time.Minute, Now: func() time.Time { return time.UnixMilli(now).Add(time.Since(start)) },
			Prefetch: Budget{Requests: 1},
		})
		for range 5 {
			end := c.now().UnixMilli()
			query(t, c, end-6*hour, end, "m")
			time.Sleep(5 * time.Minute)
		}
		hangs.Store(true)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, inside.Load())
		closing := time.Now()
		require.NoError(t, c.Close())
		require.Zero(t, time.Since(closing))
		require.Zero(t, inside.Load())
	})
}

// BenchmarkMoved looks at a day of 3200 series that ends now, again and again, a minute
// after the look before. What the look takes without the fetch, and what is kept behind
// its back, are told apart.
func BenchmarkMoved(b *testing.B) {
	const begin = synthetic.Start + 25*hour
	all, err := synthetic.Counters("http_requests_total", 3200, 49*240)
	require.NoError(b, err)
	var now, fetching atomic.Int64
	up := forgetful(func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		start := time.Now()
		defer func() { fetching.Add(time.Since(start).Nanoseconds()) }()
		sel, err := all.Slice(mint, maxt).Cut(context.Background(), mint, min(maxt, now.Load()))
		if err != nil {
			return nil, nil, err
		}
		return sel.Compact(2), nil, nil // as from a remote read, which shares nothing
	})
	now.Store(begin)
	c := New(up, Options{
		HostBytes: 1 << 40, Recheck: DefaultRecheck, Now: func() time.Time { return time.UnixMilli(now.Load()) },
	})
	var looking, keeping time.Duration
	look := func() {
		start := time.Now()
		_, _, err := c.get(b.Context(), now.Load()-24*hour, now.Load(), named("http_requests_total"))
		require.NoError(b, err)
		looking += time.Since(start)
		start = time.Now()
		landed(b, c)
		keeping += time.Since(start)
	}
	look()
	looking, keeping = 0, 0
	fetching.Store(0)
	for b.Loop() {
		if now.Add(60_000) >= begin+24*hour {
			b.Fatal("there are no more samples")
		}
		look()
	}
	b.ReportMetric(float64(int64(looking)-fetching.Load())/float64(b.N), "look-ns/op")
	b.ReportMetric(float64(keeping)/float64(b.N), "keep-ns/op")
}
