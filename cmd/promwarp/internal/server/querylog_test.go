package server

import (
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

// TestQueryLog: each query has a line if that is asked for, and a slow one has its plan.
func TestQueryLog(t *testing.T) {
	var log testfiles.Log
	set := quickSettings()
	set.Cache.Path = t.TempDir()
	s, stop := runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ask := func(query string) string {
		before := len(log.String())
		fetch(t, "GET", s.URL()+"/api/v1/query_range?start=600&end=3600&step=15&query="+url.QueryEscape(query))
		return log.String()[before:]
	}
	_, err := os.Stat(set.Cache.Path + "/queries.active")
	require.NoError(t, err)
	require.NotContains(t, ask("sum(rate(x[5m]))"), "query")
	require.NoError(t, stop())

	set.Log.Queries = true
	set.Cache.Path = ""
	s, stop = runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Regexp(t, `level=INFO msg=query component=web id=1 door=/api/v1/query_range query=sum\(rate\(x\[5m\]\)\) start=1970-01-01T00:10:00.000Z end=1970-01-01T01:00:00.000Z step=15s executor=cpu took=\S+ samples=\d+\n`, ask("sum(rate(x[5m]))"))
	require.Contains(t, ask("x * on () x"), "err=")
	require.NoError(t, stop())

	set.Log.Queries, set.Log.SlowQueries = false, model.Duration(time.Nanosecond)
	s, stop = runServer(t, Config{Settings: set, Upstream: bulky{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Regexp(t, `level=WARN msg="slow query" .*plan="cpu +sum\(rate\(x\[5m\]\)\) `, ask("sum(rate(x[5m]))"))
}

// TestMetrics: the server's own metrics have good names, and operating.md lists each.
func TestMetrics(t *testing.T) {
	set := quickSettings()
	set.Cache.Path = t.TempDir()
	s, _ := runServer(t, Config{Settings: set, Upstream: bulky{}})
	fetch(t, "GET", s.URL()+"/api/v1/query?time=3600&query=sum(x)")
	text, err := os.ReadFile("../../../../docs/operating.md")
	require.NoError(t, err)
	listed := regexp.MustCompile("`(promwarp_[a-z_]+\\*?)[`{]").FindAllStringSubmatch(string(text), -1)
	families, err := s.gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		name := f.GetName()
		if !strings.HasPrefix(name, "promwarp_") || name == "promwarp_build_info" {
			continue
		}
		names = append(names, name)
		found := false
		for _, l := range listed {
			prefix, all := strings.CutSuffix(l[1], "*")
			found = found || l[1] == name || all && strings.HasPrefix(name, prefix)
		}
		require.True(t, found, "docs/operating.md does not list %s", name)
	}
	require.Greater(t, len(names), 40)
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(s.gather), names...)
	require.NoError(t, err)
	require.Empty(t, problems)
}
