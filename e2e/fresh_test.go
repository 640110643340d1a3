package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While Prometheus scrapes, promwarp's answers keep up with it.
func TestFreshData(t *testing.T) {
	t.Parallel()
	addr := mustFreeAddr(t)
	up := prometheus(t, addr, t.TempDir(), fmt.Sprintf(
		"global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: self\n  static_configs:\n  - targets: [%q]\n", addr))
	pw := promwarp(t, up.url)

	var seen float64 // time of the newest sample seen
	moved := 0
	deadline := time.Now().Add(30 * time.Second)
	for moved < 6 {
		require.True(t, time.Now().Before(deadline), "saw %d new samples through promwarp in half a minute", moved)
		time.Sleep(300 * time.Millisecond)
		now := time.Now()
		newest := newestSample(t, pw.url, now)
		require.GreaterOrEqual(t, newest, seen, "the newest sample became older")
		if newest > seen {
			moved++
			seen = newest
		}
		if moved > 0 {
			require.Less(t, float64(now.UnixMilli())/1000-newest, 8.0, "seconds that promwarp lags behind")
		}
	}

	// What has settled is the same on both, the newest samples included.
	end := time.Now().Truncate(time.Second)
	time.Sleep(1500 * time.Millisecond)
	g := grid{end.Add(-5 * time.Second), end, time.Second}
	for _, q := range []string{`up`, `sum(scrape_samples_scraped)`, `rate(prometheus_http_requests_total[3s])`, `count({__name__=~"prometheus_tsdb.+"})`} {
		form := g.rangeForm(q)
		requireSame(t, ask(t, up.url, rangePath, form), ask(t, pw.url, rangePath, form), false, q)
	}
}

// newestSample is the time in seconds of the newest sample of up, 0 for none.
func newestSample(t *testing.T, base string, at time.Time) float64 {
	t.Helper()
	r, err := ask(t, base, queryPath, instantForm(`max(timestamp(up))`, at)).parse()
	require.NoError(t, err)
	require.Equal(t, "success", r.Status, r.Error)
	var ss []series
	require.NoError(t, json.Unmarshal(r.Data.Result, &ss))
	if len(ss) == 0 {
		return 0
	}
	v, err := strconv.ParseFloat(ss[0].Value.v, 64)
	require.NoError(t, err)
	return v
}
