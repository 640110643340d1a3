package cache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

// TestSoak has dashboards, ad-hoc queries, drops, faults and cancelled queries go
// on for PROMWARP_SOAK (a duration), in which a minute of the cache's time passes
// each 50 ms. Memory and goroutines must not grow.
func TestSoak(t *testing.T) {
	duration := os.Getenv("PROMWARP_SOAK")
	if duration == "" {
		t.Skip("set PROMWARP_SOAK to a duration")
	}
	long, err := time.ParseDuration(duration)
	require.NoError(t, err)

	var clock, faults atomic.Int64
	clock.Store(now)
	up := forgetful(func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		if faults.Add(1)%50 == 0 {
			return nil, nil, errUpstream
		}
		return minutely(t, 20, mint, maxt), nil, ctx.Err()
	})
	const limit = 8 << 20
	store, err := disk.Open(disk.Options{Path: t.TempDir(), Limit: 32 << 20})
	require.NoError(t, err)
	c := New(up, Options{
		HostBytes: limit, Disk: store, MaxAge: 12 * time.Hour, Recheck: DefaultRecheck, Prefetch: Budget{Requests: 100, Concurrency: 2},
		Now: func() time.Time { return time.UnixMilli(clock.Load()) },
	})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var all sync.WaitGroup
	var queries atomic.Int64
	all.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			clock.Add(60_000)
		}
	})
	for g := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(9, uint64(g)))
			for ctx.Err() == nil {
				end := clock.Load()
				name, mint, maxt := fmt.Sprintf("dashboard%d", r.IntN(6)), end-24*hour, end
				switch r.IntN(10) {
				case 0: // somebody looks for something
					mint = end - r.Int64N(200*hour)
					name, maxt = fmt.Sprintf("adhoc%d", r.IntN(100_000)), mint+r.Int64N(48*hour)
				case 1:
					if r.IntN(20) == 0 {
						if _, err := c.Drop(mint, mint+hour, named(name)); err != nil {
							t.Error(err)
						}
					}
				}
				qctx, end2 := context.WithCancel(ctx)
				if r.IntN(20) == 0 {
					time.AfterFunc(time.Duration(r.IntN(2000))*time.Microsecond, end2)
				}
				q, err := c.Querier(mint, maxt)
				if err != nil {
					t.Error(err)
				}
				got, _, err := drain(q.Select(qctx, true, nil, named(name)...))
				if err == nil {
					for _, ss := range got {
						if want := int((tile.Floor(maxt, 60_000)-tile.Floor(mint+59_999, 60_000))/60_000 + 1); len(ss) != want {
							t.Errorf("%d samples of %s from %d to %d, want %d", len(ss), name, mint, maxt, want)
						}
					}
				}
				_ = q.Close()
				end2()
				queries.Add(1)
			}
		})
	}
	type measure struct{ heap, goroutines int64 }
	var seen []measure
	for ctx.Err() == nil {
		time.Sleep(min(long/100, 5*time.Second))
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		s := c.Stats()
		require.LessOrEqual(t, s.Bytes, s.Limit)
		require.LessOrEqual(t, c.disk.Stats().Bytes, c.disk.Stats().Limit)
		seen = append(seen, measure{int64(m.HeapAlloc), int64(runtime.NumGoroutine())})
	}
	all.Wait()
	require.NoError(t, c.Close())
	require.False(t, c.saver.Failing())
	require.Positive(t, c.disk.Stats().Files)
	runtime.GC()
	runtime.GC()
	var still runtime.MemStats
	runtime.ReadMemStats(&still)
	require.LessOrEqual(t, int64(still.HeapAlloc), 2*c.Stats().Bytes+(8<<20), "when nothing runs")
	most := func(of []measure) (most measure) {
		for _, m := range of {
			most = measure{max(most.heap, m.heap), max(most.goroutines, m.goroutines)}
		}
		return most
	}
	n := len(seen)
	early, late := most(seen[n/5:n*3/5]), most(seen[n*3/5:])
	t.Logf("%d queries, %d hours of the cache's time; at most %+v, then %+v, when nothing runs %d; %+v", queries.Load(), (clock.Load()-now)/hour, early, late, still.HeapAlloc, c.Stats())
	require.LessOrEqual(t, float64(late.heap), 1.15*float64(early.heap))
	require.LessOrEqual(t, late.goroutines, early.goroutines+20)
}

// forgetful is a fake that does not remember what was asked.
type forgetful func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error)

func (f forgetful) Fetch(ctx context.Context, mint, maxt int64, _ []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return f(ctx, mint, maxt)
}
