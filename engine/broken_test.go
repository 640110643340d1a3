package engine

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

// TestBrokenStores asks stores that are broken in ways beside those of TestBadAnswers for eight kinds of query, by range and
// at an instant, through a cache with a disk and without: what comes is an error, which names the
// series and the time where samples are at fault, or the right answer. When the store is mended the
// answer is right, and with a disk it is so after a restart, too. What is fetched without a cache is a
// clear error by its deadline or right, and takes little memory.
func TestBrokenStores(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; make unit runs it")
	}
	store := &brokenStore{}
	cfg := config.DefaultRemoteReadConfig
	cfg.URL, cfg.RemoteTimeout = serving(t, store), model.Duration(10*time.Second)
	client := clientOf(t, cfg, remoteread.Options{
		MaxBytes: 1 << 20, MaxFrameBytes: 4 << 20, Retries: 1, MinBackoff: time.Millisecond,
	})
	e := New(Options{Prometheus: plainOpts()})

	start := time.UnixMilli(100 * 3_600_000)
	queries := []string{
		"%s", "rate(%s[5m])", "sum(%s)", "sum by (instance) (rate(%s[5m]))", "count(%s)", "topk(1, %s)", "max_over_time(rate(%s[5m])[10m:1m])",
		"%[1]s / on (instance) %[1]s",
	}
	ask := func(c storage.Queryable, query string, instant bool, limit time.Duration) *promql.Result {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		text := fmt.Sprintf(query, brokenMetric+`{job="test"}`)
		first := start.Add(5 * time.Minute) // whose windows begin with what is fetched
		if strings.Contains(text, ":") {
			first = start.Add(15 * time.Minute)
		}
		q, err := e.NewRangeQuery(ctx, c, nil, text, first, start.Add(50*time.Minute), time.Minute)
		if instant {
			q, err = e.NewInstantQuery(ctx, c, nil, text, first)
		}
		require.NoError(t, err)
		defer q.Close()
		return q.Exec(ctx)
	}
	open := func(path string) *cache.Cache {
		o := cache.Options{HostBytes: 64 << 20}
		if path != "" {
			var err error
			o.Disk, err = disk.Open(disk.Options{Path: path, Limit: 64 << 20})
			require.NoError(t, err)
		}
		return cache.New(client, o)
	}

	require.GreaterOrEqual(t, len(brokenKinds()), 65)
	want := map[string]*promql.Result{}
	name := func(query string, instant bool) string { return fmt.Sprint(query, " instant ", instant) }
	for _, query := range queries {
		for _, instant := range []bool{false, true} {
			res := ask(selection.Storage{Source: open("")}, query, instant, time.Minute)
			require.NoError(t, res.Err)
			require.NotEmpty(t, res.String())
			want[name(query, instant)] = res
		}
	}
	for _, k := range brokenKinds() {
		t.Run(k.Name, func(t *testing.T) {
			kinds, limit := queries, 20*time.Second
			if k.Endless { // it takes its time, and what is asked does not matter
				kinds = queries[:1]
			}
			if k.Endless && k.Says == "" {
				limit = 300 * time.Millisecond
			}
			requireRightFetch(t, store, k, client)
			for i, query := range kinds {
				for _, instant := range []bool{false, true} {
					for away, path := range []string{"", t.TempDir()} {
						if len(kinds) > 1 && instant == ((i+away)%2 == 0) {
							continue // half of them each way
						}
						c := open(path)
						store.Break(k)
						res := ask(selection.Storage{Source: c}, query, instant, limit)
						store.Mend()
						what := name(query, instant) + " disk " + path
						right := want[name(query, instant)]
						var corrupt *selection.CorruptError
						switch {
						case k.Late:
							require.ErrorAs(t, res.Err, &corrupt, what)
							require.ErrorContains(t, res.Err, brokenLabels(0).String(), what)
							require.ErrorContains(t, res.Err, " at 36", what)
						case k.Fails:
							require.Error(t, res.Err, what)
							require.ErrorContains(t, res.Err, k.Says, what)
						default:
							require.NoError(t, res.Err, what)
							require.Equal(t, right.String(), res.String(), what)
						}
						res = ask(selection.Storage{Source: c}, query, instant, time.Minute)
						require.NoError(t, res.Err, what)
						require.Equal(t, right.String(), res.String(), what)
						require.NoError(t, c.Close())
						if path != "" {
							c = open(path)
							res = ask(selection.Storage{Source: c}, query, instant, time.Minute)
							require.NoError(t, res.Err, what)
							require.Equal(t, right.String(), res.String(), what)
							require.NoError(t, c.Close())
						}
					}
				}
			}
		})
	}
}

// requireRightFetch fetches from a store that is broken as k says, and from the same when it is mended.
func requireRightFetch(t *testing.T, store *brokenStore, k brokenKind, c *remoteread.Client) {
	limit := 20 * time.Second
	if k.Endless && k.Says == "" {
		limit = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	end, _ := ctx.Deadline()
	fetch := func(ctx context.Context) (*selection.Selection, error) {
		sel, _, err := c.Fetch(ctx, 100*3_600_000, 101*3_600_000, []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, brokenMetric),
			labels.MustNewMatcher(labels.MatchEqual, "job", "test"),
		}, selection.Fetch{})
		return sel, err
	}
	samples := func(sel *selection.Selection) (n map[string]int, err error) {
		n = map[string]int{}
		set := sel.SeriesSet(100*3_600_000, 101*3_600_000, nil)
		for set.Next() && err == nil {
			it := set.At().Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				n[set.At().Labels().String()]++
			}
			err = it.Err()
		}
		return n, err
	}
	requireRight := func(sel *selection.Selection, err error) {
		require.NoError(t, err)
		got, err := samples(sel)
		require.NoError(t, err)
		want := map[string]int{}
		for i := range brokenSeries {
			want[brokenLabels(i).String()] = 3_600_000/brokenStep + 1
		}
		require.Equal(t, want, got)
	}
	store.Break(k)
	defer store.Mend()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sel, err := fetch(ctx)
	runtime.ReadMemStats(&after)
	t.Log(err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(150<<20), "bytes")
	require.Less(t, time.Since(end), 5*time.Second)
	switch {
	case k.Late && err == nil:
		_, err = samples(sel)
		require.ErrorAs(t, err, new(*selection.CorruptError))
		require.ErrorContains(t, err, brokenLabels(0).String())
	case k.Fails:
		require.Nil(t, sel)
		require.ErrorAs(t, err, new(*remoteread.Error))
		require.ErrorContains(t, err, "remote read from http://")
		require.Less(t, len(err.Error()), 3000)
		if k.Says == "" {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.ErrorContains(t, err, k.Says)
	default:
		requireRight(sel, err)
	}
	store.Mend()
	requireRight(fetch(t.Context()))
}
