package engine

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	config_util "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/remoteread"
)

// remotes are several TSDBs behind remote read, as promwarp merges them and as
// Prometheus does.
type remotes struct {
	dbs    []storage.Storage
	allow  []atomic.Int64 // by TSDB, how many more reads it answers; all others get a 503
	flaky  []atomic.Int64 // by TSDB, of how many reads one is not answered; 0 means none
	reads  []atomic.Int64 // by TSDB, reads that came
	ours   *fanout.Fanout
	caches []*cache.Cache
	theirs storage.Storage
}

// newRemotes starts n of them. Those of optional may fail; the second, if
// required is set, is only asked by selectors with job="j1".
func newRemotes(t testing.TB, n int, optional []bool, required bool) *remotes {
	s := &remotes{allow: make([]atomic.Int64, n), flaky: make([]atomic.Int64, n), reads: make([]atomic.Int64, n)}
	var configs []*config.RemoteReadConfig
	var ups []fanout.Upstream
	for i := range n {
		s.up(i)
		db := teststorage.New(t)
		s.dbs = append(s.dbs, db)
		h := remote.NewReadHandler(nil, nil, db, func() config.Config { return config.Config{} }, 0, 100, 1<<20)
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.reads[i].Add(1)
			if flaky := s.flaky[i].Load(); s.allow[i].Add(-1) < 0 || flaky > 0 && rand.Int64N(flaky) == 0 {
				http.Error(w, "down for a test", http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		}))
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of statuses that Prometheus's handler writes in the middle
		srv.Start()
		t.Cleanup(srv.Close)
		u, err := url.Parse(srv.URL)
		require.NoError(t, err)
		c := config.DefaultRemoteReadConfig
		c.Name, c.URL, c.ReadRecent = fmt.Sprint("db", i), &config_util.URL{URL: u}, true
		if required && i == 1 {
			c.RequiredMatchers = model.LabelSet{"job": "j1"}
		}
		configs = append(configs, &c)
		client, err := remoteread.NewClient(&c, remoteread.Options{Retries: -1})
		require.NoError(t, err)
		t.Cleanup(client.CloseIdle)
		s.caches = append(s.caches, cache.New(client, cache.Options{HostBytes: 1 << 28}))
		ups = append(ups, fanout.Upstream{Name: c.Name, Cache: s.caches[i], Optional: optional[i]})
	}
	s.ours = fanout.New(nil, ups...)
	st := remote.NewStorage(nil, nil, func() (int64, error) { return 0, nil }, t.TempDir(), time.Second, nil, false)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.ApplyConfig(&config.Config{RemoteReadConfigs: configs}))
	s.theirs = storage.NewFanout(nil, teststorage.New(t), st)
	return s
}

// up has TSDB i answer, down has it fail.
func (s *remotes) up(i int)   { s.allow[i].Store(math.MaxInt64) }
func (s *remotes) down(i int) { s.allow[i].Store(0) }

// clear empties all caches.
func (s *remotes) clear() {
	for _, c := range s.caches {
		c.Clear()
	}
}

// spread writes what st has into the TSDBs: of each series all into one, all into
// all, the times before and after some moment into two, with some time in both, or
// each sample into any.
func (s *remotes) spread(t testing.TB, r *rand.Rand, st storage.Queryable) {
	apps := make([]storage.Appender, len(s.dbs))
	for i, db := range s.dbs {
		apps[i] = db.Appender(t.Context())
	}
	q, err := st.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	var it chunkenc.Iterator
	for set.Next() {
		l := set.At().Labels()
		way, one, two := r.IntN(4), r.IntN(len(apps)), r.IntN(len(apps))
		at := r.Int64N(3_600_000)
		it = set.At().Iterator(it)
		for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
			ts := it.AtT()
			for i, app := range apps {
				switch way {
				case 0:
					if i != one {
						continue
					}
				case 2:
					if !(i == one && ts <= at+600_000 || i == two && ts >= at) {
						continue
					}
				case 3:
					if r.IntN(2) == 0 {
						continue
					}
				}
				if v == chunkenc.ValFloat {
					_, f := it.At()
					_, err = app.Append(0, l, ts, f)
				} else {
					_, h := it.AtHistogram(nil)
					h.CounterResetHint = histogram.UnknownCounterReset
					_, err = app.AppendHistogram(0, l, ts, h, nil)
				}
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, set.Err())
	for _, app := range apps {
		require.NoError(t, app.Commit())
	}
}

// overOurs is an engine that asks ours whatever it is given.
type overOurs struct {
	promql.QueryEngine
	ours storage.Queryable
}

func (o overOurs) NewInstantQuery(ctx context.Context, _ storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	return o.QueryEngine.NewInstantQuery(ctx, o.ours, opts, qs, ts)
}

func (o overOurs) NewRangeQuery(ctx context.Context, _ storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	return o.QueryEngine.NewRangeQuery(ctx, o.ours, opts, qs, start, end, interval)
}

// TestFanout compares random queries over several upstreams with Prometheus's
// engine over its own fanout of the same remote reads.
func TestFanout(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 600)
	for _, v := range []struct {
		upstreams int
		required  bool
	}{{2, false}, {3, false}, {2, true}} {
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			r := rand.New(rand.NewPCG(19, uint64(v.upstreams)))
			s := newRemotes(t, v.upstreams, make([]bool, v.upstreams), v.required)
			s.spread(t, r, randomStorage(t, r))
			c := newComparison(false, 2)
			c.asked = overOurs{c.ours, s.ours}
			for k := range n {
				ask := question{start: int64(r.IntN(3600)) * 1000}
				ask.query, ask.allowed = randomQuery(r)
				ask.end, ask.step = ask.start+int64(r.IntN(1800))*1000, int64(1+r.IntN(90))*1000
				if r.IntN(4) == 0 {
					ask.end, ask.step = ask.start, 0
				}
				require.NoError(t, c.compare(t, s.theirs, ask))
				if k%(n/4) == 0 {
					s.clear()
				}
			}
			require.Zero(t, c.undecided)
			require.Greater(t, c.answered, n/2)
			whole, part, _ := c.taken()
			require.Greater(t, whole+part, 0.8*float64(n))
		})
	}
}

// TestFanoutSamples compares all samples, histograms included, with Prometheus's
// fanout, as samples and as chunks.
func TestFanoutSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 1))
	source := teststorage.New(t)
	app := source.Appender(t.Context())
	for i := range 30 {
		l := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
		for ts := r.Int64N(1_000_000); ts < 4_000_000; ts += 1 + r.Int64N(30_000) {
			var err error
			if i%2 == 0 {
				_, err = app.Append(0, l, ts, r.NormFloat64())
			} else {
				_, err = app.AppendHistogram(0, l, ts, tsdbutil.GenerateTestHistogram(r.Int64N(10)), nil)
			}
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	s := newRemotes(t, 3, make([]bool, 3), false)
	s.spread(t, r, source)
	read := func(st storage.Queryable, mint, maxt int64) (out []string) {
		q, err := st.Querier(mint, maxt)
		require.NoError(t, err)
		defer q.Close()
		set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
		for set.Next() {
			line := set.At().Labels().Get("i")
			it := set.At().Iterator(nil)
			for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
				if it.AtT() < mint || it.AtT() > maxt {
					continue // chunks are whole
				}
				if v == chunkenc.ValFloat {
					_, f := it.At()
					line += fmt.Sprintf(" %d=%x", it.AtT(), math.Float64bits(f))
					continue
				}
				_, h := it.AtFloatHistogram(nil)
				line += fmt.Sprintf(" %d=%s", it.AtT(), h)
			}
			require.NoError(t, it.Err())
			if strings.Contains(line, "=") {
				out = append(out, line)
			}
		}
		require.NoError(t, set.Err())
		return out
	}
	for range 50 {
		mint := r.Int64N(4_000_000)
		maxt := mint + r.Int64N(4_000_000)
		want := read(s.theirs, mint, maxt)
		require.Equal(t, want, read(s.ours, mint, maxt))
		require.Equal(t, want, read(chunkBacked{s.ours}, mint, maxt))
	}
}

// chunkBacked answers with the samples of the chunks that a storage hands out.
type chunkBacked struct{ storage.ChunkQueryable }

func (c chunkBacked) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := c.ChunkQuerier(mint, maxt)
	return chunkBackedQuerier{q}, err
}

type chunkBackedQuerier struct{ storage.ChunkQuerier }

func (q chunkBackedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return storage.NewSeriesSetFromChunkSeriesSet(q.ChunkQuerier.Select(ctx, sorted, hints, ms...))
}
