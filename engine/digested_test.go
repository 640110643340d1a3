package engine

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// TestLongWindows asks for windows of a day every seven minutes, as rules do, over a cache: once each
// chunk is known, the newest are read, and the answers are Prometheus's.
func TestLongWindows(t *testing.T) {
	const series, end = 4, 36 * hour
	db := teststorage.New(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	r := rand.New(rand.NewPCG(7, 7))
	app := db.Appender(t.Context())
	for s := range series {
		total := 0.0
		ls := labels.FromStrings("__name__", "c_total", "job", fmt.Sprint(s%2), "i", fmt.Sprint(s))
		for ts := int64(0); ts < end; ts += 15_000 {
			if total += r.Float64(); r.IntN(2000) == 0 {
				total = 0
			}
			_, err := app.Append(0, ls, ts, total)
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	now := &atomic.Int64{}
	now.Store(25 * hour)
	c := cache.New(chunksOf{db, &atomic.Int64{}}, cache.Options{HostBytes: 1 << 30, Now: func() time.Time { return time.UnixMilli(now.Load()) }})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	e, prometheus := New(Options{Prometheus: plainOpts(), DecodedBytes: 1 << 26}), promql.NewEngine(plainOpts())
	queries := []string{
		"sum by (job) (increase(c_total[1d]))", "max by (job) (max_over_time(c_total[1d]))", "sum(sum_over_time(c_total[1d]))",
		"sum(changes(c_total[1d])) / sum(resets(c_total[1d]))",
	}
	for first := true; now.Load() < end; now.Add(7 * minute) {
		for _, qs := range queries {
			want, err := prometheus.NewInstantQuery(t.Context(), db, nil, qs, time.UnixMilli(now.Load()))
			require.NoError(t, err)
			got, err := e.NewInstantQuery(t.Context(), selection.Storage{Source: c}, nil, qs, time.UnixMilli(now.Load()))
			require.NoError(t, err)
			require.Equal(t, summary(want.Exec(t.Context()), qs), summary(got.Exec(t.Context()), qs), qs)
			digested, samples := 0, int64(0)
			got.(*query).plan.Root.Walk(func(d *plan.Decision) {
				if d.Work != nil {
					digested, samples = digested+d.Work.Digested, samples+d.Work.Samples
				}
			})
			if !first {
				require.Greater(t, digested, series*20, qs)
				require.Less(t, samples, int64(2*series*15*120), qs) // windows have 5760 samples of each series
			}
			want.Close()
			got.Close()
		}
		first = false
	}
}
