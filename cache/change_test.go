package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/selection"
)

// changing is a model whose past changes: series are deleted and backfilled.
type changing struct {
	*model
	maxAge time.Duration
	blocks bool         // whether only what is in blocks is deleted, and that for good
	clock  atomic.Int64 // now, for the cache's goroutines
	states []state      // the past ones, oldest first
	drops  []dropped
}

// state is everything that the upstream had until a time (ms).
type state struct {
	until  int64
	series map[string]map[int64]sample
}

// dropped is something that was dropped from the cache at a time (ms).
type dropped struct {
	at, mint, maxt int64
	series         map[string]bool
}

func everything() []*labels.Matcher {
	return []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"), labels.MustNewMatcher(labels.MatchNotEqual, "i", "")}
}

// The TSDB is always asked for all times: it panics when it has to cut chunks
// that hold something deleted.

// Fetch implements Upstream.
func (m *changing) Fetch(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	q, err := m.db.ChunkQuerier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	sel, ws, err := selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, nil, matchers...), 0)
	if err != nil || m.whole {
		return sel.Slice(mint, maxt), ws, err
	}
	sel, err = sel.Cut(context.Background(), mint, maxt)
	return sel, ws, err
}

// direct returns what the upstream has from mint to maxt.
func (m *changing) direct(mint, maxt int64, matchers []*labels.Matcher) map[string]map[int64]sample {
	all, _ := m.model.direct(math.MinInt64, math.MaxInt64, matchers)
	out := byTime(all)
	for _, ss := range out {
		maps.DeleteFunc(ss, func(ts int64, _ sample) bool { return ts < mint || ts > maxt })
	}
	return out
}

func byTime(answer map[string][]sample) map[string]map[int64]sample {
	out := map[string]map[int64]sample{}
	for name, ss := range answer {
		out[name] = map[int64]sample{}
		for _, s := range ss {
			out[name][s.t] = s
		}
	}
	return out
}

// pass lets up to d ms pass in front of c.
func (m *changing) pass(c *Cache, d int64) {
	if c.recheck > 0 {
		m.note()
	}
	m.advance(m.r.Int64N(d))
	m.clock.Store(m.now)
}

// note remembers the present state.
func (m *changing) note() {
	m.states = append(m.states, state{m.now, m.direct(math.MinInt64, math.MaxInt64, everything())})
}

// change deletes or backfills something older than the freshness window.
func (m *changing) change() {
	m.note()
	mint := modelStart + m.r.Int64N(m.now-m.fresh-modelStart)
	maxt := min(mint+m.r.Int64N(2*hour), m.now-m.fresh)
	if m.r.IntN(2) == 0 {
		if m.blocks {
			require.NoError(m.t, m.db.Compact(m.t.Context()))
			maxt = min(maxt, m.db.Head().MinTime()-1)
		}
		if mint <= maxt {
			require.NoError(m.t, m.db.Delete(m.t.Context(), mint, maxt, m.selector()...))
		}
		if m.blocks {
			require.NoError(m.t, m.db.CleanTombstones())
		}
		return
	}
	app := m.db.Appender(m.t.Context())
	for range 30 {
		i := m.r.IntN(len(m.last))
		if i%4 != 3 { // floats; a histogram out of order would mix with them
			_, _ = app.Append(0, m.labels(i), mint+m.r.Int64N(maxt-mint+1), float64(m.r.IntN(100)))
		}
	}
	require.NoError(m.t, app.Commit())
}

// check fails unless every sample of got, and every one that is missing, was so
// upstream at some moment that the settings allow.
func (m *changing) check(c *Cache, got map[string][]sample, mint, maxt int64, ms []*labels.Matcher) {
	m.t.Helper()
	is := m.direct(mint, maxt, ms)
	settled := c.moment().Settled
	has := byTime(got)
	// allowed reports whether the sample of a series at ts may be as s says, a
	// zero s standing for none.
	allowed := func(name string, ts int64, s sample) bool {
		if is[name][ts] == s {
			return true
		}
		since := ts + m.fresh
		if m.maxAge > 0 {
			since = max(since, m.now-m.maxAge.Milliseconds())
		}
		switch {
		case ts < settled.From || ts >= settled.To && c.recheck == 0:
			return false
		case c.recheck > 0 && ts >= settled.To:
			since = m.now - c.recheck
		case c.recheck > 0:
			since = min(since, m.now-c.recheck)
		}
		for _, d := range m.drops {
			if d.series[name] && d.mint <= ts && ts <= d.maxt {
				since = max(since, d.at)
			}
		}
		for _, past := range m.states {
			if past.until >= since && past.series[name][ts] == s {
				return true
			}
		}
		return false
	}
	for name, ss := range has {
		for ts, s := range ss {
			if !allowed(name, ts, s) {
				m.t.Fatalf("%s at %d has %+v, the upstream %+v; now %d", name, ts, s, is[name][ts], m.now)
			}
		}
	}
	for name, ss := range is {
		for ts := range ss {
			if _, there := has[name][ts]; !there && !allowed(name, ts, sample{}) {
				m.t.Fatalf("%s lacks the sample at %d; now %d", name, ts, m.now)
			}
		}
	}
}

// drop drops something from the cache, whose files are in life unless that is nil.
func (m *changing) drop(c *Cache, life *mortal) {
	mint := modelStart + m.r.Int64N(m.now-modelStart)
	maxt := mint + m.r.Int64N(3*hour)
	ms := m.selector()
	d := dropped{m.now, mint, maxt, map[string]bool{}}
	for i := range m.last {
		l := m.labels(i)
		matches := true
		for _, x := range ms {
			matches = matches && x.Matches(l.Get(x.Name))
		}
		if matches {
			d.series[l.String()] = true
		}
	}
	_, err := c.Drop(mint, maxt, ms)
	if err != nil && life != nil && life.left.Load() < 0 {
		return // it says so: what is in files may come back
	}
	require.NoError(m.t, err)
	m.drops = append(m.drops, d)
}

// copyFiles copies the files of a cache that is running to a new directory.
func copyFiles(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	files, err := os.ReadDir(from)
	require.NoError(t, err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // renamed or removed meanwhile
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, f.Name()), b, 0o600))
	}
	return to
}

// TestAgainstChangingTSDB holds the cache to its promise about samples that
// change after they were fetched.
func TestAgainstChangingTSDB(t *testing.T) {
	steps := 40
	if testing.Short() {
		steps = 15
	}
	type variant struct {
		whole             bool
		maxAge, retention time.Duration
		limit             int64
		disk              int64 // most bytes
		recheck           time.Duration
	}
	for n, v := range []variant{
		{}, {whole: true, maxAge: time.Hour}, {maxAge: 20 * time.Minute}, {retention: 3 * time.Hour},
		{whole: true, maxAge: 2 * time.Hour, retention: 4 * time.Hour}, {maxAge: time.Hour, limit: 150_000},
		{disk: 1 << 30}, {disk: 1 << 30, maxAge: time.Hour, limit: 150_000}, {disk: 300_000, retention: 4 * time.Hour, whole: true},
		{recheck: 10 * time.Minute, disk: 1 << 30}, {recheck: 5 * time.Minute, maxAge: time.Hour, limit: 150_000}, {recheck: 5 * time.Minute, whole: true},
	} {
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			t.Parallel()
			m := &changing{maxAge: v.maxAge, model: &model{
				t: t, r: rand.New(rand.NewPCG(11, uint64(n))), now: modelStart, fresh: (10 * time.Minute).Milliseconds(),
				last: make([]int64, 20), whole: v.whole, order: v.recheck > 0,
			}}
			m.db = teststorage.New(t, func(o *tsdb.Options) { o.OutOfOrderTimeWindow = 1000 * hour })
			for i := range m.last {
				m.last[i] = modelStart + m.r.Int64N(15_000)
			}
			limit := v.limit
			if limit == 0 {
				limit = DefaultHostBytes
			}
			path := t.TempDir()
			start := func() *Cache {
				o := Options{
					HostBytes: limit, Tile: []time.Duration{20 * time.Minute, 37 * time.Minute}[n%2], MaxAge: v.maxAge, Retention: v.retention, Recheck: v.recheck,
					Now: func() time.Time { return time.UnixMilli(m.clock.Load()) },
				}
				if v.disk > 0 {
					var err error
					o.Disk, err = disk.Open(disk.Options{Path: path, Limit: v.disk})
					require.NoError(t, err)
				}
				return New(m, o)
			}
			m.clock.Store(m.now)
			c := start()
			defer func() { require.NoError(t, c.Close()) }()
			restored, dropped := int64(0), int64(0)
			var seen witness
			m.advance(5 * hour)
			m.clock.Store(m.now)
			for step := range steps {
				m.pass(c, hour/[]int64{5, 40}[m.r.IntN(2)])
				prefetched(t, c, step)
				switch m.r.IntN(4) {
				case 0:
					m.change()
				case 1:
					m.drop(c, nil)
				}
				if v.disk > 0 && m.r.IntN(5) == 0 {
					restored += c.metrics.restored.value()
					dropped += c.Stats().Dropped
					if m.r.IntN(2) == 0 {
						path = copyFiles(t, path) // as a crash leaves them
					}
					require.NoError(t, c.Close())
					c = start()
				}
				mint := modelStart + m.r.Int64N(m.now-modelStart)
				maxt := mint + m.r.Int64N(m.now-mint+hour)
				if m.r.IntN(2) == 0 {
					mint, maxt = m.now-4*hour, m.now
				}
				ms := m.selector()
				q, err := c.Querier(mint, maxt)
				require.NoError(t, err)
				sel, ws, err := q.(selection.Querier).SelectChunks(t.Context(), nil, ms...)
				require.NoError(t, err)
				got, _ := read(t, sel.SeriesSet(mint, maxt, ws))
				m.check(c, got, mint, maxt, ms)
				require.NoError(t, seen.check(sel, got, mint, maxt, c.tile))
				require.NoError(t, q.Close())
			}
			if v.disk > 0 {
				require.Zero(t, c.disk.Stats().Bad)
			}
			if testing.Short() {
				return // not all of it happens in so few steps
			}
			require.Positive(t, seen.again)
			s := c.Stats()
			require.Positive(t, s.Hits)
			require.Positive(t, s.Dropped+dropped)
			if v.disk > 0 {
				require.Positive(t, restored)
			}
		})
	}
}
