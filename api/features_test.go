package api

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/common/version"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/features"
	"github.com/stretchr/testify/require"
)

func TestFeatures(t *testing.T) {
	ask := func(a *API) (all map[string]map[string]bool) {
		code, got := getJSON(t, a, "/api/v1/features")
		require.Equal(t, 200, code)
		require.NoError(t, json.Unmarshal(got.Data, &all))
		return all
	}
	all := ask(newTestAPI(t, nil))
	require.True(t, all["api"]["query_stats"])
	require.False(t, all["api"]["admin"])
	require.True(t, all["prometheus"]["server_mode"])
	require.True(t, all["promql"]["duration_expr"])
	require.True(t, all["promql_operators"]["topk"])
	require.False(t, all["promql_operators"]["limitk"])
	require.True(t, all["promql_functions"]["rate"])
	require.Contains(t, all["promql_functions"], "mad_over_time")
	require.False(t, all["promql_functions"]["mad_over_time"])

	// The engine's are asked for each time.
	r := features.NewRegistry()
	parser.NewParser(parser.Options{EnableExperimentalFunctions: true}).RegisterFeatures(r)
	a := newTestAPI(t, func(o *Options) { o.Features = r.Get })
	require.True(t, ask(a)["promql_functions"]["mad_over_time"])
	require.NotContains(t, ask(a)["promql"], "per_step_stats")
	r.Enable(features.PromQL, "per_step_stats")
	require.True(t, ask(a)["promql"]["per_step_stats"])
	require.True(t, ask(a)["api"]["query_stats"])
}

func TestVersion(t *testing.T) {
	w := do(t, newTestAPI(t, nil), httptest.NewRequest("GET", "/version", nil))
	require.Equal(t, 200, w.Code)
	var got map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
	require.Equal(t, PrometheusVersion, got["version"])
	require.Equal(t, version.GetRevision(), got["revision"])
	require.Len(t, got, 6)
}
