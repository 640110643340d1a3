package server

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/canary"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
)

// TestCompare: what any door evaluates is compared, one whose answer is another than the upstream's is
// found, a reload changes how much, and a server that stops leaves nothing behind.
func TestCompare(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // behind the cleanups below
	var log lines
	set := quickSettings()
	set.Compare.Fraction = 1
	set.Query.LookbackDelta = config.AutoDuration(time.Hour)
	next := set
	next.Compare.Fraction = 0
	s, stop := runServer(t, Config{
		Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Reload: func() (config.Settings, error) { return next, nil },
	})
	q := "query=" + url.QueryEscape(`sum by (i) (rate(x[5m]))`)
	same := func() int {
		_, page := fetch(t, "GET", s.URL()+"/metrics")
		return counted(t, page, `promwarp_compare_queries_total{verdict="same"}`)
	}
	for i, ask := range []string{
		"/api/v1/query?time=3600&" + q, "/api/v1/query_range?start=600&end=3600&step=15&" + q,
		"/query?start=600&end=3600&step=15&" + q, "/query?format=csv&start=600&end=3600&step=15&" + q, "/query?format=csv&time=3600&" + q,
	} {
		code, body := fetch(t, "GET", s.URL()+ask)
		require.Equal(t, 200, code, body)
		require.Eventually(t, func() bool { return same() == i+1 && s.canary.Pending() == 0 }, time.Minute, time.Millisecond, ask)
	}
	fetch(t, "GET", s.URL()+"/api/v1/query?executor=prometheus&time=3600&"+q)
	fetch(t, "GET", s.URL()+"/explain?analyze=true&time=3600&"+q)
	require.NoError(t, s.Reload())
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&"+q)
	_, page := fetch(t, "GET", s.URL()+"/metrics")
	require.Equal(t, 5, same())
	require.Contains(t, page, "promwarp_compare_running 0")
	require.NotContains(t, page, "promwarp_compare_skipped_total{")
	require.NotContains(t, page, `promwarp_compare_queries_total{verdict="different"} 1`)

	s.canary.Set(canary.Settings{Fraction: 1, Timeout: time.Minute, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`))
	})})
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&"+q)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), `verdict=upstream difference="infos`) }, 10*time.Second, time.Millisecond, &log)

	next.Compare.Fraction = 1
	require.NoError(t, s.Reload())
	for range 3 {
		code, _ := fetch(t, "GET", s.URL()+"/api/v1/query_range?start=0&end=86400&step=15&"+q)
		require.Equal(t, 200, code)
	}
	require.NoError(t, stop()) // in the middle of a comparison
	require.Zero(t, s.canary.Pending())
	require.False(t, strings.Contains(log.String(), "level=ERROR"), log.String())
}
