package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
)

// TestSecondLook: what the first look at a dashboard decoded or added up is there at the second.
func TestSecondLook(t *testing.T) {
	const end = 8 * hour
	db := teststorage.New(t)
	app := db.Appender(t.Context())
	for i := range 8 {
		ls := labels.FromStrings("__name__", "m_total", "job", fmt.Sprint(i%2), "i", fmt.Sprint(i))
		for ts := int64(i); ts < end; ts += 15_000 {
			_, err := app.Append(0, ls, ts, float64(ts)/7)
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	for name, c := range map[string]struct {
		query         string
		step          time.Duration
		before        int64 // how long a range was asked for before, ms; 0 for none
		now           int64
		results, room int64
		most          float64 // share of the first look's samples that the second may decode
		least         float64 // samples that the first does not decode, of all; 0 for any
	}{
		"windows that touch":            {query: "avg(avg_over_time(m_total[1h]))", step: time.Hour, now: end + 24*hour, room: 1 << 30},
		"windows that overlap":          {query: "sum(stddev_over_time(m_total[30m]))", step: time.Minute, now: end + 24*hour, room: 1 << 30},
		"up to now":                     {query: "sum(stddev_over_time(m_total[30m]))", step: time.Minute, now: end, room: 1 << 30, most: 0.1},
		"added up":                      {query: "sum by (job) (rate(m_total[5m]))", step: time.Minute, now: end + 24*hour, results: 1 << 20},
		"added up beside what is there": {query: "sum by (job) (rate(m_total[5m]))", step: time.Minute, before: 2 * hour, now: end, results: 1 << 20, most: 0.1},
		"windows far apart":             {query: "sum(rate(m_total[1m])) + sum(rate(m_total[2m]))", step: time.Hour, now: end + 24*hour, room: 1 << 30, most: 4, least: 0.4},
		"no room":                       {query: "avg(avg_over_time(m_total[1h]))", step: time.Hour, now: end + 24*hour, room: 1 << 10, most: 1},
	} {
		t.Run(name, func(t *testing.T) {
			opts := plainOpts()
			reg := prometheus.NewRegistry()
			opts.Reg = reg
			e := New(Options{Prometheus: opts, Workers: 2, DecodedBytes: c.room, ResultsBytes: c.results})
			data := cache.New(chunksOf{db, &atomic.Int64{}}, cache.Options{HostBytes: 1 << 28, Now: func() time.Time { return time.UnixMilli(c.now) }})
			defer data.Close()
			decoded := func(from int64) float64 {
				before := metric(t, reg, "promwarp_cpu_samples_decoded_total")
				q, err := e.NewRangeQuery(context.Background(), data, nil, c.query, time.UnixMilli(from), time.UnixMilli(end), c.step)
				require.NoError(t, err)
				defer q.Close()
				require.NoError(t, q.Exec(t.Context()).Err)
				return metric(t, reg, "promwarp_cpu_samples_decoded_total") - before
			}
			if c.before > 0 {
				decoded(end - c.before)
			}
			first := decoded(hour)
			require.Positive(t, first)
			require.LessOrEqual(t, first, 2*(1-c.least)*8*7*240, "samples of all series in seven hours, for two windows at most")
			require.LessOrEqual(t, decoded(hour), c.most*first)
		})
	}
}
