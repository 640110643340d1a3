package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
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
		h := readsOf(db)
		at := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.reads[i].Add(1)
			if flaky := s.flaky[i].Load(); s.allow[i].Add(-1) < 0 || flaky > 0 && rand.Int64N(flaky) == 0 {
				http.Error(w, "down for a test", http.StatusServiceUnavailable)
				return
			}
			h.ServeHTTP(w, r)
		}))
		c := config.DefaultRemoteReadConfig
		c.Name, c.URL, c.ReadRecent = fmt.Sprint("db", i), at, true
		if required && i == 1 {
			c.RequiredMatchers = model.LabelSet{"job": "j1"}
		}
		configs = append(configs, &c)
		client := clientOf(t, c, remoteread.Options{Retries: -1})
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
	n := fromEnv(t, "PROMWARP_RANDOM", 250)
	for _, v := range []struct {
		upstreams int
		required  bool
	}{{2, false}, {3, false}, {2, true}} {
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			r := rand.New(rand.NewPCG(19, uint64(v.upstreams)))
			s := newRemotes(t, v.upstreams, make([]bool, v.upstreams), v.required)
			s.spread(t, r, randomStorage(t, r))
			c := newComparison(false, 2)
			c.asked = overOurs{c.ours, selection.Storage{Source: s.ours}}
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
			require.LessOrEqual(t, c.undecided, n/5000)
			require.Greater(t, c.answered, n/2)
			whole, _ := c.taken()
			require.Greater(t, whole, 0.8*float64(n))
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
	for range 15 {
		mint := r.Int64N(4_000_000)
		maxt := mint + r.Int64N(4_000_000)
		want := read(s.theirs, mint, maxt)
		require.Equal(t, want, read(selection.Storage{Source: s.ours}, mint, maxt))
		require.Equal(t, want, read(chunkBacked{selection.Storage{Source: s.ours}}, mint, maxt))
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

// coreModes are those that need no GPU.
var coreModes = []Mode{Auto, CPU, Prometheus}

// exec asks ours in a mode and returns the answer without its warnings, these, and
// the error.
func (c *comparison) exec(t *testing.T, ctx context.Context, mode Mode, st storage.Queryable, ask question) (string, annotations.Annotations, error) {
	q, err := ask.on(inMode{c.ours, mode}, st)
	require.NoError(t, err)
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return "", nil, res.Err
	}
	warnings := annotations.Annotations{}
	for text, w := range res.Warnings {
		var partial *fanout.PartialWarning
		if errors.As(w, &partial) {
			warnings[text] = w
			delete(res.Warnings, text)
		}
	}
	return summary(res, ask.query), warnings, nil
}

// stockOver is the answer of Prometheus's engine over the TSDBs which.
func (s *remotes) stockOver(t *testing.T, c *comparison, ask question, which ...int) string {
	var rest []storage.Storage
	for _, i := range which[1:] {
		rest = append(rest, s.dbs[i])
	}
	q, err := ask.on(c.stock, storage.NewFanout(nil, s.dbs[which[0]], rest...))
	require.NoError(t, err)
	defer q.Close()
	return summary(q.Exec(t.Context()), ask.query)
}

var faultQuestion = question{query: "sum by (job) (rate(reqs_total[5m])) - sum by (job) (rate(errs_total[5m]))", start: 1_200_000, end: 3_000_000, step: 60_000}

func TestOptionalUpstreamFails(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 2))
	s := newRemotes(t, 2, []bool{false, true}, false)
	s.spread(t, r, randomStorage(t, r))
	c := newComparison(false, 2)
	for _, mode := range coreModes {
		s.down(1)
		got, warnings, err := c.exec(t, t.Context(), mode, selection.Storage{Source: s.ours}, faultQuestion)
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Contains(t, fmt.Sprint(warnings), "partial answer, without anything of the upstream db1: remote read from http://")
		require.Equal(t, s.stockOver(t, c, faultQuestion, 0), got)

		// Prometheus says the same of its remote storages.
		q, err := faultQuestion.on(c.stock, s.theirs)
		require.NoError(t, err)
		res := q.Exec(t.Context())
		require.NoError(t, res.Err)
		require.Len(t, res.Warnings, 1)
		res.Warnings = nil
		require.Equal(t, summary(res, faultQuestion.query), got)
		q.Close()

		// What cannot carry a warning gets an error.
		_, _, err = c.exec(t, t.Context(), mode, selection.For(selection.Storage{Source: s.ours}, selection.Request{Whole: true}), faultQuestion)
		require.ErrorContains(t, err, "503")

		// It was not taken for a whole answer.
		s.up(1)
		whole := s.stockOver(t, c, faultQuestion, 0, 1)
		require.NotEqual(t, whole, got)
		got, warnings, err = c.exec(t, t.Context(), mode, selection.Storage{Source: s.ours}, faultQuestion)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, whole, got)

		// What is kept of it needs it no more.
		s.down(1)
		got, warnings, err = c.exec(t, t.Context(), mode, selection.Storage{Source: s.ours}, faultQuestion)
		require.NoError(t, err)
		require.Empty(t, warnings)
		require.Equal(t, whole, got)
		s.clear()
	}
}

// TestUpstreamFailsWithinAQuery: an upstream that answers the first selector of a
// query and not the second is left out of both.
func TestUpstreamFailsWithinAQuery(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 3))
	s := newRemotes(t, 2, []bool{false, true}, false)
	s.spread(t, r, randomStorage(t, r))
	c := newComparison(false, 2)
	for _, mode := range coreModes {
		s.clear()
		s.allow[1].Store(1)
		before := s.reads[1].Load()
		got, warnings, err := c.exec(t, t.Context(), mode, selection.Storage{Source: s.ours}, faultQuestion)
		require.NoError(t, err)
		require.Len(t, warnings, 1)
		require.Equal(t, s.stockOver(t, c, faultQuestion, 0), got)
		require.Equal(t, before+2, s.reads[1].Load(), "not asked again")
	}
}

// TestFlakyUpstreams has upstreams fail at random. Each answer must be what
// Prometheus's engine says over the upstreams that no warning names: over these
// alone for all selectors of the query, or over all.
func TestFlakyUpstreams(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	s := newRemotes(t, 3, []bool{true, false, true}, false)
	s.spread(t, r, randomStorage(t, r))
	c := newComparison(false, 2)
	seen := map[int]int{}
	for k := range 400 {
		for i := range s.flaky {
			s.flaky[i].Store(0)
			if i != 1 && r.IntN(2) == 0 {
				s.flaky[i].Store(int64(2 + r.IntN(3)))
			}
		}
		for _, c := range s.caches {
			if r.IntN(2) == 0 {
				c.Clear()
			}
		}
		ask := faultQuestion
		ask.start = int64(r.IntN(3600)) * 1000
		ask.end = ask.start + int64(r.IntN(1800))*1000
		ask.query = []string{
			faultQuestion.query,
			"max by (job) (temp) + on (job) group_left () (max by (job) (reqs_total) - on (job) min by (job) (errs_total))",
			"count(reqs_total) + count(temp offset 3m) + count(temp) + count(errs_total)",
			"sum by (job) (count_over_time(temp[10m])) / count by (job) (last_over_time({__name__=~\"temp|reqs_total\"}[10m]))",
			`label_replace(reqs_total, "n", "$1", "__name__", "(.*)") or temp or errs_total`,
		}[k%5]
		mode := coreModes[r.IntN(3)]
		got, warnings, err := c.exec(t, t.Context(), mode, selection.Storage{Source: s.ours}, ask)
		require.NoError(t, err, "%s %s", mode, ask)
		which := []int{1}
		for _, i := range []int{0, 2} {
			gone := false
			for _, w := range warnings {
				var partial *fanout.PartialWarning
				gone = gone || errors.As(w, &partial) && partial.Upstream == fmt.Sprint("db", i)
			}
			if !gone {
				which = append(which, i)
			}
		}
		seen[len(which)]++
		require.Equal(t, s.stockOver(t, c, ask, which...), got, "%s, over %v", ask, which)
	}
	t.Logf("answers by the number of upstreams: %v", seen)
	for n := 1; n <= 3; n++ {
		require.Greater(t, seen[n], 10, "%d upstreams", n)
	}
}
