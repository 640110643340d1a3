package cache

import (
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// changing is a model whose past changes: series are deleted and backfilled.
type changing struct {
	*model
	maxAge time.Duration
	clock  atomic.Int64 // now, for the cache's goroutines
	exact  bool         // whether nothing changes, so that answers are what the upstream has
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
		if is[name][ts] == s || m.exact {
			return is[name][ts] == s
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
