package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	configutil "github.com/prometheus/common/config"
	commonmodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

// faulty is Prometheus's remote-read handler, some of whose answers fail.
type faulty struct {
	http.Handler
	r     *rand.Rand
	mu    sync.Mutex
	often int // one in this number fails; 0 means none
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	how := -1
	if f.often > 0 {
		how = f.r.IntN(4 * f.often)
	}
	f.mu.Unlock()
	switch how {
	case 0:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case 1:
		http.Error(w, "not like this", http.StatusBadRequest)
	case 2:
		panic(http.ErrAbortHandler)
	case 3:
		f.Handler.ServeHTTP(&cutOff{ResponseWriter: w, left: 100}, r)
	default:
		f.Handler.ServeHTTP(w, r)
	}
}

// cutOff ends an answer after some bytes.
type cutOff struct {
	http.ResponseWriter
	left int
}

func (c *cutOff) Flush() {}

func (c *cutOff) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}

// mortal has the changes of files of a program fail that ends at some change.
type mortal struct{ left atomic.Int64 } // changes

func (m *mortal) before(operation string) error {
	if operation != "open" && operation != "read" && m.left.Add(-1) < 0 {
		return errors.New("the program has ended")
	}
	return nil
}

// selectors are those that the queries of TestAgainstPrometheus draw from: many
// match a part of what others do.
var selectors = []string{
	`m0`, `m1`, `m2`, `nothing`, `{__name__=~"m.*"}`, `{__name__=~"m0|m1"}`, `{i!=""}`,
	`m0{i=~"[0-9]"}`, `m0{odd=""}`, `m0{odd!=""}`, `m0{odd="yes"}`, `{__name__=~"m0|m1",odd="yes"}`, `m1{i="4"}`, `m1{i=~"4|7|10"}`,
	`m1{parity="1"}`, `m1{parity!="1"}`, `m2{odd!~"y.*"}`, `{odd="yes"}`, `{odd="yes",__name__!="m1"}`, `m0{parity=~"1|"}`,
}

// TestAgainstPrometheus holds the cache to its promise in front of Prometheus's own
// database and remote-read handler over HTTP: whatever is written, written late,
// deleted and dropped, whatever requests fail, however little room there is, and
// at whatever operation on files the program ends. Where nothing is deleted, backfilled or too late,
// answers are exactly what the database has. PROMWARP_MODEL is the number of
// runs, and each makes 60 steps.
func TestAgainstPrometheus(t *testing.T) {
	runs, seed := 3, uint64(1)
	if testing.Short() {
		runs = 1
	}
	for name, to := range map[string]any{"PROMWARP_MODEL": &runs, "PROMWARP_SEED": &seed} {
		if s := os.Getenv(name); s != "" {
			_, err := fmt.Sscan(s, to)
			require.NoError(t, err, name)
		}
	}
	var sum totals
	var mu sync.Mutex
	t.Run("runs", func(t *testing.T) {
		for n := range uint64(runs) {
			t.Run(fmt.Sprintf("seed %d", seed+n), func(t *testing.T) {
				t.Parallel()
				s := againstPrometheus(t, seed+n)
				mu.Lock()
				defer mu.Unlock()
				sum.add(s)
			})
		}
	})
	t.Logf("%+v", sum)
	if runs < 3 {
		return // not all of it happens in each
	}
	for _, n := range []int64{sum.Hits, sum.Subsumed, sum.Failures, sum.Evicted, sum.Dropped, sum.Restored} {
		require.Positive(t, n, "%+v", sum)
	}
}

// add adds what another cache has done.
func (s *totals) add(o totals) {
	s.Hits, s.Subsumed, s.Failures = s.Hits+o.Hits, s.Subsumed+o.Subsumed, s.Failures+o.Failures
	s.Evicted, s.Dropped, s.Restored = s.Evicted+o.Evicted, s.Dropped+o.Dropped, s.Restored+o.Restored
}

func againstPrometheus(t *testing.T, seed uint64) (sum totals) {
	r := rand.New(rand.NewPCG(5, seed))
	pick := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	maxAge, retention := pick(0, 20*time.Minute, 2*time.Hour), pick(0, 0, 3*time.Hour)
	window, recheck := pick(0, time.Hour), pick(0, 5*time.Minute, 10*time.Minute)
	m := &changing{maxAge: maxAge, model: &model{
		t: t, r: r, now: modelStart, fresh: (10*time.Minute + window).Milliseconds(), last: make([]int64, 20), late: r.IntN(2) == 0, order: recheck > 0,
	}}
	m.exact = seed%2 == 0 && !(m.late && recheck > 0 && window == 0)
	t.Logf("exact %v, late %v, window %s, recheck %s, greatest age %s, retention %s", m.exact, m.late, window, recheck, maxAge, retention)
	m.db = teststorage.New(t, func(o *tsdb.Options) { o.OutOfOrderTimeWindow = 1000 * hour })
	for i := range m.last {
		m.last[i] = modelStart + r.Int64N(15_000)
	}
	handler := &faulty{r: rand.New(rand.NewPCG(r.Uint64(), 1)), Handler: remote.NewReadHandler(
		slog.New(slog.DiscardHandler), nil, m.db, func() config.Config { return config.Config{} }, 1e9, 100, 1<<20)}
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.Start()
	defer server.Close()
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	up, err := remoteread.NewClient(&config.RemoteReadConfig{URL: &configutil.URL{URL: u}, RemoteTimeout: commonmodel.Duration(time.Minute)},
		remoteread.Options{Retries: 1, MinBackoff: time.Millisecond})
	require.NoError(t, err)
	defer up.CloseIdle()

	path := t.TempDir()
	limit, onDisk := []int64{120_000, 400_000, DefaultHostBytes}[seed%3], []int64{300_000, 1 << 30, 0}[(seed+seed/3)%3]
	var life *mortal
	start := func() *Cache {
		o := Options{
			HostBytes: limit, Tile: 20 * time.Minute, OutOfOrder: window, Recheck: recheck, MaxAge: maxAge, Retention: retention,
			Now: func() time.Time { return time.UnixMilli(m.clock.Load()) }, saveRetry: time.Millisecond,
		}
		if onDisk > 0 {
			life = &mortal{}
			life.left.Store(1 << 60)
			if r.IntN(3) > 0 {
				life.left.Store(r.Int64N(60))
			}
			o.Disk, err = disk.Open(disk.Options{Path: path, Limit: onDisk, Before: life.before})
			require.NoError(t, err)
		}
		return New(up, o)
	}
	stop := func(c *Cache) {
		require.NoError(t, c.Close())
		sum.add(c.totals())
	}
	m.clock.Store(m.now)
	var seen witness
	defer func() { require.Positive(t, seen.again) }()
	c := start()
	m.advance(5 * hour)
	m.clock.Store(m.now)
	for step := range 60 {
		m.pass(c, hour/[]int64{5, 40}[r.IntN(2)])
		switch r.IntN(5) {
		case 0:
			if !m.exact {
				m.change()
			}
		case 1:
			m.drop(c, life)
		case 2:
			if onDisk > 0 {
				if life.left.Load() > 0 && r.IntN(2) == 0 {
					life.left.Store(r.Int64N(4)) // it ends while it is closed
				}
				stop(c)
				if r.IntN(2) == 0 {
					path = copyFiles(t, path)
				}
				c = start()
			}
		}
		handler.mu.Lock()
		handler.often = []int{0, 0, 3, 30}[r.IntN(4)]
		failing := handler.often > 0
		handler.mu.Unlock()

		type query struct {
			mint, maxt int64
			ms         []*labels.Matcher
			got        map[string][]sample
			err        error
		}
		queries := make([]query, 1+r.IntN(4))
		var all sync.WaitGroup
		for k := range queries {
			q := &queries[k]
			q.mint = modelStart + r.Int64N(m.now-modelStart)
			q.maxt = q.mint + r.Int64N(m.now-q.mint+hour)
			if r.IntN(2) == 0 {
				q.mint, q.maxt = m.now-4*hour, m.now
			}
			q.ms = matchersIn(t, selectors[r.IntN(len(selectors))])
			all.Go(func() {
				in, err := selection.Storage{Source: c}.Querier(q.mint, q.maxt)
				if err != nil {
					q.err = err
					return
				}
				defer in.Close()
				sel, ws, err := in.(selection.Querier).SelectChunks(t.Context(), nil, q.ms...)
				if q.err = err; err != nil {
					return
				}
				if q.got, _, q.err = drain(sel.SeriesSet(q.mint, q.maxt, ws)); q.err == nil {
					q.err = seen.check(sel, q.got, q.mint, q.maxt, 20*time.Minute.Milliseconds())
				}
			})
		}
		all.Wait()
		prefetched(t, c, step)
		for _, q := range queries {
			if q.err != nil {
				require.True(t, failing, "%v", q.err)
				continue
			}
			m.check(c, q.got, q.mint, q.maxt, q.ms)
		}
		require.LessOrEqual(t, c.Stats().Bytes, limit)
		if onDisk > 0 {
			require.LessOrEqual(t, c.disk.Stats().Bytes, onDisk)
			require.Zero(t, c.disk.Stats().Bad)
		}
	}
	stop(c)
	return sum
}

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
		HostBytes: limit, Disk: store, MaxAge: 12 * time.Hour, Recheck: DefaultRecheck, Prefetch: Budget{Requests: 100},
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
				q, err := selection.Storage{Source: c}.Querier(mint, maxt)
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

func (f forgetful) Fetch(ctx context.Context, mint, maxt int64, _ []*labels.Matcher, _ selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	return f(ctx, mint, maxt)
}
