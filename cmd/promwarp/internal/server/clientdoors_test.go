package server

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
)

// The doors for clients are made from the program's settings and its engine.
func TestClientDoors(t *testing.T) {
	set := quickSettings()
	set.Web.UpstreamURL = "https://me:secret@prometheus.example/base/"
	set.Query.LookbackDelta = config.AutoDuration(100 * 365 * 24 * time.Hour) // back to the sample's time
	s, _ := runServer(t, Config{Settings: set, Upstream: counting{}})

	code, body := fetch(t, "GET", s.URL()+"/federate?match[]=up")
	require.Equal(t, 200, code)
	require.Equal(t, "# TYPE up untyped\nup{instance=\"\"} 1 1000\n", body)

	code, body = fetch(t, "GET", s.URL()+"/api/v1/features")
	require.Equal(t, 200, code)
	var got struct{ Data map[string]map[string]bool }
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.True(t, got.Data["promql"]["at_modifier"])
	require.True(t, got.Data["promql"]["per_query_lookback_delta"])
	require.True(t, got.Data["promql"]["duration_expr"])
	require.False(t, got.Data["promql"]["delayed_name_removal"])
	require.True(t, got.Data["promql_functions"]["rate"])
	require.True(t, got.Data["api"]["query_stats"])

	r, err := http.NewRequest("GET", s.URL()+"/graph?g0.expr=up", nil)
	require.NoError(t, err)
	resp, err := client.Transport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 302, resp.StatusCode)
	require.Equal(t, "https://prometheus.example/base/graph?g0.expr=up", resp.Header.Get("Location"))
	body = answers(t, s, "/api/v1/status/flags", "prometheus.example")
	require.NotContains(t, body, "secret")
}
