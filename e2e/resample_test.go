package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestResample compares resample requests with Prometheus's range queries: with buckets closed and
// labelled on the right both are of the same windows.
func TestResample(t *testing.T) {
	end := time.Now().Add(-time.Hour).Truncate(time.Hour)
	up := prometheus(t, mustFreeAddr(t), smallData(t, end, 6), "")
	pw := promwarp(t, up.url)
	const every = 5 * time.Minute
	start := end.Add(-4 * time.Hour)
	for aggregate, query := range map[string]string{
		"sum": "sum_over_time(http_requests_total[5m])", "max": "max_over_time(http_requests_total[5m])", "count": "count_over_time(http_requests_total[5m])",
		"mean": "avg_over_time(http_requests_total[5m])", "95pct": "quantile_over_time(0.95, http_requests_total[5m])",
	} {
		form := grid{start, end, every}.rangeForm("")
		form.Del("query")
		form.Del("step")
		form.Set("metric", "http_requests_total")
		form.Set("every", "5m")
		form.Set("aggregates", aggregate)
		form.Set("closed", "right")
		form.Set("label", "right")
		got := valuesOf(t, ask(t, pw.url, "/query", form))
		want := valuesOf(t, ask(t, up.url, "/api/v1/query_range", grid{start.Add(every), end, every}.rangeForm(query)))
		require.NotEmpty(t, want)
		require.Equal(t, want, got, aggregate)
	}
}

// valuesOf are the values of a matrix by the labels of their series, without those that only one
// of the two kinds of answers has.
func valuesOf(t *testing.T, a answer) map[string][]point {
	r, err := a.parse()
	require.NoError(t, err)
	require.Equal(t, "success", r.Status, r.Error)
	var all []series
	require.NoError(t, json.Unmarshal(r.Data.Result, &all))
	out := map[string][]point{}
	for _, s := range all {
		delete(s.Metric, "__name__")
		delete(s.Metric, "aggregate")
		out[s.String()] = s.Values
	}
	return out
}
