package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hour = int64(time.Hour / time.Millisecond) // ms

func at(ms int64) func() time.Time { return func() time.Time { return time.UnixMilli(ms) } }

// request is a call of Fetch.
type request struct{ mint, maxt int64 }

// fake is an Upstream that calls a function and remembers what was asked.
type fake struct {
	fetch func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error)

	mu       sync.Mutex
	requests []request
	expected selection.Expectation // of the last request
}

func (f *fake) Fetch(ctx context.Context, mint, maxt int64, _ []*labels.Matcher, of selection.Fetch) (*selection.Selection, annotations.Annotations, error) {
	f.mu.Lock()
	f.requests, f.expected = append(f.requests, request{mint, maxt}), of.Expected
	f.mu.Unlock()
	return f.fetch(ctx, mint, maxt)
}

// Answers implements Answerer.
func (f *fake) Answers([]*labels.Matcher) bool { return true }

// asked returns the requests since the last call.
func (f *fake) asked() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	rs := f.requests
	f.requests = nil
	return rs
}

// minutely is an upstream's answer: n series with a sample a minute whose value
// is its time, in chunks that end with every hour.
func minutely(t testing.TB, n int, mint, maxt int64) *selection.Selection {
	t.Helper()
	const step = int64(60_000)
	b := selection.NewBuilder(0)
	for i := range n {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%06d", i)))
		for from := tile.Floor(mint+step-1, step); from <= maxt; {
			times := selectiontest.TimesBetween(from, min(tile.Floor(from, hour)+hour-1, maxt), step)
			last := times[len(times)-1]
			require.NoError(t, b.Chunk(chunkenc.EncXOR, from, last, selectiontest.Encode(t, chunkenc.EncXOR, times, func(ts int64) float64 { return float64(ts) })))
			from = last + step
		}
	}
	s, err := b.Finish()
	require.NoError(t, err)
	return s
}

// having returns a fake that has what answer returns for the times asked for.
func having(answer func(mint, maxt int64) *selection.Selection) *fake {
	return &fake{fetch: func(_ context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		return answer(mint, maxt), nil, nil
	}}
}

// newMinutely returns a fake that has n minutely series.
func newMinutely(t testing.TB, n int) *fake {
	return having(func(mint, maxt int64) *selection.Selection { return minutely(t, n, mint, maxt) })
}

func named(name string) []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", name)}
}

type sample = selectiontest.Sample

// read drains a set into samples by series. Series without samples are left
// out.
func read(t testing.TB, set storage.SeriesSet) (map[string][]sample, []string) {
	t.Helper()
	out, order, err := drain(set)
	require.NoError(t, err)
	return out, order
}

// drain is read, from any goroutine.
func drain(set storage.SeriesSet) (map[string][]sample, []string, error) {
	out := map[string][]sample{}
	var order []string
	var it chunkenc.Iterator
	for set.Next() {
		s := set.At()
		it = s.Iterator(it)
		var ss []sample
		for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
			ss = append(ss, selectiontest.Current(it, v))
		}
		if err := it.Err(); err != nil {
			return nil, nil, err
		}
		if len(ss) > 0 {
			name := s.Labels().String()
			if _, twice := out[name]; twice {
				return nil, nil, fmt.Errorf("%s came twice", name)
			}
			out[name] = ss
			order = append(order, name)
		}
	}
	return out, order, set.Err()
}

// query runs a Select over the querier's range and returns the number of
// samples of every series.
func query(t testing.TB, c *Cache, mint, maxt int64, name string) map[string][]sample {
	t.Helper()
	return queryIn(t.Context(), t, c, mint, maxt, name)
}

// queryIn is query in a context.
func queryIn(ctx context.Context, t testing.TB, c *Cache, mint, maxt int64, name string) map[string][]sample {
	t.Helper()
	q, err := selection.Storage{Source: c}.Querier(mint, maxt)
	require.NoError(t, err)
	defer q.Close()
	got, _ := read(t, q.Select(ctx, true, nil, named(name)...))
	return got
}

// requireMinutely checks an answer for minutely series.
func requireMinutely(t testing.TB, got map[string][]sample, n int, mint, maxt int64) {
	t.Helper()
	want := 0
	for ts := tile.Floor(mint+59_999, 60_000); ts <= maxt; ts += 60_000 {
		want++
	}
	if want == 0 {
		n = 0
	}
	require.Len(t, got, n)
	for name, ss := range got {
		require.Len(t, ss, want, "samples of %s", name)
		for i, s := range ss {
			if ts := tile.Floor(mint+59_999, 60_000) + int64(i)*60_000; s != (sample{T: ts, V: math.Float64bits(float64(ts))}) {
				t.Fatalf("%s has %+v at %d ms", name, s, ts)
			}
		}
	}
}

// landed waits until nothing is being fetched or kept any more.
func landed(t testing.TB, c *Cache) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); c.flying.Load() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d flights have not ended", c.flying.Load())
		}
	}
}

// prefetched does at some steps what the prefetcher of a cache without one would do now.
func prefetched(t testing.TB, c *Cache, step int) {
	if step%3 < 2 {
		_ = (&prefetcher{c: c, Budget: Budget{Requests: 1e9}}).round(t.Context())
	}
}

var errUpstream = errors.New("upstream is down")

// gate is an upstream that waits until it is opened.
type gate struct {
	*fake
	open    chan struct{}
	entered chan struct{} // receives one for every call
	inside  atomic.Int64
}

func newGate(inner *fake) *gate {
	g := &gate{open: make(chan struct{}), entered: make(chan struct{}, 1000)}
	fetch := inner.fetch
	g.fake = &fake{fetch: func(ctx context.Context, mint, maxt int64) (*selection.Selection, annotations.Annotations, error) {
		g.inside.Add(1)
		defer g.inside.Add(-1)
		g.entered <- struct{}{}
		select {
		case <-g.open:
			return fetch(ctx, mint, maxt)
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}}
	return g
}

// testTile is the tile in most tests: the range after which Prometheus starts a
// new chunk, which makes what is fetched easy to predict.
const testTile = 2 * time.Hour

// get is what somebody gets who holds nothing.
func (c *Cache) get(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return c.counted(ctx, nil, mint, maxt, matchers)
}

// counted is get with statistics.
func (c *Cache) counted(ctx context.Context, s *selection.Stats, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	r := c.Open(selection.Request{Stats: s}, mint, maxt)
	defer r.Close()
	return r.SelectChunks(ctx, nil, matchers...)
}

// totals are what a cache holds and has done since it was made.
type totals struct {
	Stats
	Hits, Misses, Subsumed, Fetches, Shared, Fetched, Failures int64
	Evictions, Evicted, Refused, Discards, Dropped, Restored   int64
}

func (c *Cache) totals() totals {
	m := c.metrics
	s := totals{Stats: c.Stats()}
	for to, from := range map[*int64]prometheus.Counter{
		&s.Hits: m.hits, &s.Misses: m.misses, &s.Subsumed: m.subsumed, &s.Fetches: m.fetches, &s.Shared: m.shared,
		&s.Fetched: m.bytes, &s.Failures: m.failures, &s.Evictions: m.evictions, &s.Evicted: m.evicted,
		&s.Refused: m.refused, &s.Discards: m.discards, &s.Dropped: m.dropped, &s.Restored: m.restored,
	} {
		*to = counted(from)
	}
	return s
}

func counted(c prometheus.Counter) int64 {
	if c == nil {
		return 0
	}
	return int64(testutil.ToFloat64(c))
}
