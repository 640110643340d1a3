package remoteread

import (
	"context"
	"math"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread/brokenstore"
	"github.com/promwarp/promwarp/selection"
)

// TestBrokenStores fetches from stores that are broken in every way: what comes is a clear
// error by its deadline or a right answer, it takes little memory, and the next fetch from
// the store, when it is mended, brings what is right. TestBrokenStores in engine/ does the same
// through a cache, which must keep nothing of what was wrong.
func TestBrokenStores(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under the race detector; make unit runs it")
	}
	require.GreaterOrEqual(t, len(brokenstore.Kinds()), 75)
	store := &brokenstore.Store{}
	base, _ := server(t, func(w http.ResponseWriter, r *http.Request, _ int64) { store.ServeHTTP(w, r) })
	o := quick()
	o.MaxBytes, o.MaxFrameBytes, o.Retries = 1<<20, 4<<20, 1
	c := newClient(t, readConfig(t, base), o)
	asked := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, brokenstore.Metric),
		labels.MustNewMatcher(labels.MatchEqual, "job", "test"),
	}
	requireRight := func(t *testing.T, sel *selection.Selection) {
		got := map[string]int{}
		for name, samples := range samplesOf(t, sel, 100*hour, 101*hour) {
			got[name] = len(samples)
		}
		want := map[string]int{}
		for i := range brokenstore.NumSeries {
			want[brokenstore.Labels(i).String()] = int(hour/brokenstore.Step) + 1
		}
		require.Equal(t, want, got)
	}
	for _, k := range brokenstore.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			store.Break(k)
			defer store.Mend()
			limit := 20 * time.Second
			if k.Endless && k.Says == "" {
				limit = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			end, _ := ctx.Deadline()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			sel, _, err := c.Fetch(ctx, 100*hour, 101*hour, asked, selection.Fetch{})
			runtime.ReadMemStats(&after)
			t.Log(err)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(150<<20), "bytes")
			require.Less(t, time.Since(end), 5*time.Second)
			switch {
			case k.Late && err == nil:
				set := sel.SeriesSet(math.MinInt64, math.MaxInt64, nil)
				for set.Next() && err == nil {
					it := set.At().Iterator(nil)
					for it.Next() != chunkenc.ValNone {
					}
					err = it.Err()
				}
				t.Log(err)
				require.ErrorAs(t, err, new(*selection.CorruptError))
				require.ErrorContains(t, err, brokenstore.Labels(0).String())
			case k.Fails:
				require.Nil(t, sel)
				require.ErrorAs(t, err, new(*Error))
				require.ErrorContains(t, err, "remote read from "+base)
				require.Less(t, len(err.Error()), 3000)
				if k.Says == "" {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				require.ErrorContains(t, err, k.Says)
			default:
				require.NoError(t, err)
				requireRight(t, sel)
			}

			store.Mend()
			sel, _, err = c.Fetch(t.Context(), 100*hour, 101*hour, asked, selection.Fetch{})
			require.NoError(t, err)
			requireRight(t, sel)
		})
	}
}
