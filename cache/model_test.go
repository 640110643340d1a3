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
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// model drives a TSDB that is written to as time goes by.
type model struct {
	t     *testing.T
	r     *rand.Rand
	db    *teststorage.TestStorage
	now   int64   // ms
	fresh int64   // ms
	late  bool    // whether samples come out of order within fresh
	last  []int64 // by series, time of its last sample
	order bool    // whether there are no histograms, and some series are behind, all their samples as late
	// written are the moments that a series has been given a value for. Where it has two for one, which
	// of them Prometheus answers depends on the range that it is asked for.
	written map[moment]bool
}

// moment is a time of a series, in ms.
type moment struct {
	series int
	at     int64
}

// first reports whether a series is given its first value for a time.
func (m *model) first(i int, ts int64) bool {
	if m.written == nil {
		m.written = map[moment]bool{}
	}
	was := m.written[moment{i, ts}]
	m.written[moment{i, ts}] = true
	return !was
}

const modelStart = 1000 * hour

func (m *model) labels(i int) labels.Labels {
	ls := []string{"__name__", fmt.Sprintf("m%d", i%3), "i", fmt.Sprint(i), "parity", fmt.Sprint(i % 2)}
	if i%2 == 1 {
		ls = append(ls, "odd", "yes")
	}
	return labels.FromStrings(ls...)
}

// live reports whether series i is written to at ts: some begin late, some
// end early, some pause.
func (m *model) live(i int, ts int64) bool {
	h := (ts - modelStart) / (hour / 4)
	switch i % 5 {
	case 1:
		return h > int64(i)
	case 2:
		return h < int64(3*i)
	case 3:
		return h/7%2 == 0
	}
	return true
}

// behind is how late the samples of series i arrive, in ms.
func (m *model) behind(i int) int64 {
	if !m.order || i%5 == 1 || i%5 == 2 || i%5 == 3 {
		return 0 // those begin and end
	}
	return int64(i%7) * 90_000
}

// advance lets d ms pass, with what is scraped meanwhile.
func (m *model) advance(d int64) {
	app := m.db.Appender(m.t.Context())
	for i := range m.last {
		end := m.now + d - m.behind(i)
		for ts := m.last[i] + 15_000 + m.r.Int64N(20); ts <= end; ts += 15_000 + m.r.Int64N(20) {
			m.last[i] = ts
			if !m.live(i, ts) {
				continue
			}
			// Late ones are written at random below.
			if m.late && m.r.IntN(4) == 0 {
				continue
			}
			m.write(app, i, ts)
		}
	}
	require.NoError(m.t, app.Commit())
	m.now += d
	if !m.late {
		return
	}
	app = m.db.Appender(m.t.Context())
	for i := range m.last {
		if i%4 != 3 {
			for range 3 {
				if ts := m.now - m.r.Int64N(m.fresh); m.live(i, ts) {
					m.write(app, i, ts)
				}
			}
		}
	}
	require.NoError(m.t, app.Commit())
}

func (m *model) write(app storage.Appender, i int, ts int64) {
	if !m.first(i, ts) {
		return
	}
	var err error
	switch {
	case i%4 == 3 && !m.order:
		_, err = app.AppendHistogram(0, m.labels(i), ts, tsdbutil.GenerateTestHistogram(int64(ts-modelStart)/15_000), nil)
	case m.r.IntN(30) == 0 && m.behind(i) == 0: // else it would begin again, and late
		_, err = app.Append(0, m.labels(i), ts, math.Float64frombits(value.StaleNaN))
	default:
		_, err = app.Append(0, m.labels(i), ts, float64(m.r.IntN(100)))
	}
	if m.late && err != nil {
		return // older than the window, or a duplicate
	}
	require.NoError(m.t, err)
}

func (m *model) direct(mint, maxt int64, matchers []*labels.Matcher) (map[string][]sample, []string) {
	q, err := m.db.Querier(mint, maxt)
	require.NoError(m.t, err)
	defer q.Close()
	return read(m.t, q.Select(m.t.Context(), true, nil, matchers...))
}

func (m *model) selector() []*labels.Matcher {
	pool := [][]*labels.Matcher{
		named("m0"), named("m1"), named("nothing"),
		{labels.MustNewMatcher(labels.MatchRegexp, "__name__", "m.*")},
		{labels.MustNewMatcher(labels.MatchEqual, "parity", "1"), labels.MustNewMatcher(labels.MatchNotEqual, "__name__", "m2")},
	}
	return pool[m.r.IntN(len(pool))]
}

// TestConcurrently runs random queries from many goroutines, some of them cancelled, through a cache
// that evicts, and that is cleared or made to shrink meanwhile: answers are right, and its accounts
// come to what it holds.
func TestConcurrently(t *testing.T) {
	for name, disturb := range map[string]func(c *Cache){
		"cleared":   (*Cache).Clear,
		"reclaimed": func(c *Cache) { c.Reclaim(50_000) },
	} {
		t.Run(name, func(t *testing.T) {
			c := New(newMinutely(t, 5), Options{HostBytes: 300_000, Tile: testTile, Now: at(now)})
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					r := rand.New(rand.NewPCG(3, uint64(g)))
					for range 100 {
						mint := 80*hour + r.Int64N(20*hour)
						maxt := min(now, mint+r.Int64N(10*hour))
						ctx, cancel := context.WithCancel(t.Context())
						if r.IntN(4) == 0 {
							time.AfterFunc(time.Duration(r.IntN(1000))*time.Microsecond, cancel)
						}
						q, err := selection.Storage{Source: c}.Querier(mint, maxt)
						if err != nil {
							t.Error(err)
						}
						got, order, err := drain(q.Select(ctx, true, nil, named(fmt.Sprintf("m%d", r.IntN(6)))...))
						if err != nil && ctx.Err() == nil || !slices.IsSorted(order) {
							t.Errorf("%v, series in order %v", err, order)
						}
						for _, ss := range got {
							if want := int(maxt/60_000 - (mint+59_999)/60_000 + 1); len(ss) != want {
								t.Errorf("%d samples, want %d", len(ss), want)
							}
						}
						_ = q.Close()
						cancel()
						if r.IntN(20) == 0 {
							disturb(c)
						}
						if s := c.Stats(); s.Bytes > s.Limit || s.Bytes < 0 {
							t.Errorf("%+v", s)
						}
					}
				})
			}
			wg.Wait()
			c.Clear()
			require.Zero(t, c.Stats().Bytes)
		})
	}
}

// changing is a model whose past changes: series are deleted and backfilled.
type changing struct {
	*model
	maxAge time.Duration
	clock  atomic.Int64 // now, for the cache's goroutines
	exact  bool         // whether nothing changes, so that answers are what the upstream has
	states []snapshot   // the past ones, oldest first
	drops  []dropped
}

// snapshot is everything that the upstream had until a time (ms).
type snapshot struct {
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

// direct returns what the upstream has from mint to maxt. The TSDB is asked for all times: it panics
// when it has to cut chunks that hold something deleted.
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
			out[name][s.T] = s
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
	m.states = append(m.states, snapshot{m.now, m.direct(math.MinInt64, math.MaxInt64, everything())})
}

// change deletes or backfills something older than the freshness window.
func (m *changing) change() {
	m.note()
	mint := modelStart + m.r.Int64N(m.now-m.fresh-modelStart)
	maxt := min(mint+m.r.Int64N(2*hour), m.now-m.fresh)
	if m.r.IntN(2) == 0 {
		// Only what is in blocks is deleted, and that for good.
		require.NoError(m.t, m.db.Compact(m.t.Context()))
		maxt = min(maxt, m.db.Head().MinTime()-1)
		if mint <= maxt {
			require.NoError(m.t, m.db.Delete(m.t.Context(), mint, maxt, m.selector()...))
		}
		require.NoError(m.t, m.db.CleanTombstones())
		return
	}
	app := m.db.Appender(m.t.Context())
	for range 30 {
		i := m.r.IntN(len(m.last))
		ts := mint + m.r.Int64N(maxt-mint+1)
		if i%4 != 3 && m.first(i, ts) { // floats; a histogram out of order would mix with them
			_, _ = app.Append(0, m.labels(i), ts, float64(m.r.IntN(100)))
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
		if m.exact {
			return false
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
