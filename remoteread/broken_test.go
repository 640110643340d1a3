package remoteread_test

import (
	"context"
	"errors"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"testing"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/brokenstore"
	"github.com/promwarp/promwarp/selection"
)

const hour = int64(3_600_000)

var asked = []*labels.Matcher{
	labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, brokenstore.Metric),
	labels.MustNewMatcher(labels.MatchEqual, "job", "test"),
}

// brokenClient returns a store that is not broken yet and a client for it, whose limits are
// low.
func brokenClient(t *testing.T) (*brokenstore.Store, *remoteread.Client, string) {
	store := &brokenstore.Store{}
	s := httptest.NewUnstartedServer(store)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL + "/api/v1/read")
	require.NoError(t, err)
	cfg := config.DefaultRemoteReadConfig
	cfg.URL = &commonconfig.URL{URL: u}
	cfg.RemoteTimeout = model.Duration(10 * time.Second)
	c, err := remoteread.NewClient(&cfg, remoteread.Options{
		MaxBytes: 1 << 20, MaxFrameBytes: 4 << 20, Retries: 1, MinBackoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(c.CloseIdle)
	return store, c, u.String()
}

// decode reads all samples of a set and returns their number by series.
func decode(set storage.SeriesSet) (map[string]int, error) {
	out := map[string]int{}
	for set.Next() {
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			out[set.At().Labels().String()]++
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
	}
	return out, set.Err()
}

// want is what a right answer for an hour has.
func want() map[string]int {
	out := map[string]int{}
	for i := range brokenstore.NumSeries {
		out[brokenstore.Labels(i).String()] = int(hour/brokenstore.Step) + 1
	}
	return out
}

// TestBrokenStores fetches from stores that are broken in every way: what comes is a clear
// error by its deadline or a right answer, it takes little memory, and the next fetch from
// the store, when it is mended, brings what is right.
func TestBrokenStores(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; make unit runs it")
	}
	require.GreaterOrEqual(t, len(brokenstore.Kinds()), 75)
	store, c, base := brokenClient(t)
	for _, k := range brokenstore.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			store.Break(k)
			defer store.Mend()
			ctx, cancel := context.WithTimeout(t.Context(), timeFor(k))
			defer cancel()
			end, _ := ctx.Deadline()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			sel, _, err := c.Fetch(ctx, 100*hour, 101*hour, asked)
			runtime.ReadMemStats(&after)
			t.Log(err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(150<<20), "bytes")
			require.Less(t, time.Since(end), 5*time.Second)
			switch {
			case k.Late && err == nil:
				_, err = decode(sel.SeriesSet(math.MinInt64, math.MaxInt64, nil))
				t.Log(err)
				var corrupt *selection.CorruptError
				require.ErrorAs(t, err, &corrupt)
				require.Contains(t, err.Error(), brokenstore.Labels(0).String())
			case k.Fails:
				requireClear(t, k, base, err)
				require.Nil(t, sel)
			default:
				require.NoError(t, err)
				got, err := decode(sel.SeriesSet(100*hour, 101*hour, nil))
				require.NoError(t, err)
				require.Equal(t, want(), got)
			}

			store.Mend()
			sel, _, err = c.Fetch(t.Context(), 100*hour, 101*hour, asked)
			require.NoError(t, err)
			got, err := decode(sel.SeriesSet(100*hour, 101*hour, nil))
			require.NoError(t, err)
			require.Equal(t, want(), got)
		})
	}
}

// timeFor is the time that a query of a store of that kind has.
func timeFor(k brokenstore.Kind) time.Duration {
	if k.Endless && k.Says == "" {
		return 500 * time.Millisecond
	}
	return 20 * time.Second
}

// requireClear checks that err names the store and says what is wrong.
func requireClear(t *testing.T, k brokenstore.Kind, base string, err error) {
	var e *remoteread.Error
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "remote read from "+base)
	require.Less(t, len(err.Error()), 3000)
	if k.Says == "" {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return
	}
	require.ErrorContains(t, err, k.Says)
}

// TestBrokenStoresThroughTheCache does the same through a cache, which must keep nothing of
// what was wrong.
func TestBrokenStoresThroughTheCache(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; make unit runs it")
	}
	store, c, base := brokenClient(t)
	for _, k := range brokenstore.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			kept := cache.New(c, cache.Options{HostBytes: 64 << 20})
			defer kept.Close()
			get := func(ctx context.Context) (map[string]int, error) {
				q, err := kept.Querier(100*hour, 101*hour)
				require.NoError(t, err)
				defer q.Close()
				return decode(q.Select(ctx, true, nil, asked...))
			}
			store.Break(k)
			defer store.Mend()
			ctx, cancel := context.WithTimeout(t.Context(), timeFor(k))
			defer cancel()
			end, _ := ctx.Deadline()
			got, err := get(ctx)
			require.Less(t, time.Since(end), 5*time.Second)
			var corrupt *selection.CorruptError
			switch {
			case k.Late && errors.As(err, &corrupt):
			case k.Fails && errors.Is(err, context.DeadlineExceeded) && k.Says == "":
			case k.Fails:
				requireClear(t, k, base, err)
			case k.Late:
				require.Error(t, err)
			default:
				require.NoError(t, err)
				require.Equal(t, want(), got)
			}

			store.Mend()
			requests := store.Requests()
			got, err = get(t.Context())
			require.NoError(t, err)
			require.Equal(t, want(), got)
			if k.Fails || k.Late {
				require.Greater(t, store.Requests(), requests, "what was wrong must not be kept")
			}
		})
	}
}

var _ http.Handler = (*brokenstore.Store)(nil)
