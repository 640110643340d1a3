package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// newCostAPI is an API over a cache that has nothing yet.
func newCostAPI(t *testing.T) *API {
	first := httptest.NewServer(newTestAPI(t, nil))
	t.Cleanup(first.Close)
	client := newReadClient(t, first.URL)
	t.Cleanup(client.CloseIdle)
	return newTestAPI(t, func(o *Options) {
		o.Queryable = selection.Storage{Source: cache.New(client, cache.Options{HostBytes: 1 << 20})}
	})
}

// TestCost: what a query would cost is answered without fetching, first that it is not known, then what
// it is.
func TestCost(t *testing.T) {
	a := newCostAPI(t)
	cost := func(path string) (c plan.Cost, warnings []string) {
		code, got := getJSON(t, a, path)
		require.Equal(t, 200, code, got.Error)
		require.NoError(t, json.Unmarshal(got.Data, &c))
		return c, got.Warnings
	}
	const ranged = "/api/v1/query_range_cost?query=sum(rate(m[5m]))&start=1200&end=1800&step=60"
	c, warnings := cost(ranged)
	require.False(t, c.Complete)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "m: nothing is cached of it")
	code, _ := getJSON(t, a, strings.Replace(ranged, "_cost", "", 1))
	require.Equal(t, 200, code)
	c, warnings = cost(ranged)
	require.Empty(t, warnings)
	require.True(t, c.Complete)
	require.Equal(t, plan.CostEstimate{Series: 2, Samples: 30}, c.Estimate)
	require.Equal(t, plan.OnCPU, c.Executor)
	require.Zero(t, c.FetchBytes)
	require.Positive(t, c.CachedBytes)
	require.Positive(t, c.MemoryBytes)
	require.Len(t, c.Selectors, 1)
	s := c.Selectors[0]
	require.Equal(t, plan.SelectorCost{
		Selector: "m", Start: 900_001, End: 1_800_000, Exact: true, Series: 2, Samples: 30, Read: 30, CachedBytes: c.CachedBytes, Sources: map[string]int64{"kept": 900_000},
	}, s)
	c, _ = cost("/api/v1/query_cost?query=m&time=1800")
	require.Equal(t, plan.CostEstimate{Series: 2, Samples: 2}, c.Estimate)
	c, _ = cost("/api/v1/query_cost?query=m&time=1800&executor=prometheus")
	require.Equal(t, plan.OnPrometheus, c.Executor)
	require.Equal(t, plan.CostEstimate{Series: 2, Samples: 2}, c.Estimate)
	c, _ = cost("/api/v1/query_cost?query=1%2B1&time=1800")
	require.True(t, c.Complete)
	require.Empty(t, c.Selectors)
}

// TestCostErrors: the endpoints take what those of queries take, and refuse what these refuse.
func TestCostErrors(t *testing.T) {
	a := newCostAPI(t)
	many := strings.Repeat("m+", 1000) + "m"
	for query, want := range map[string]string{
		"query_cost?query=sum(":                                     `invalid parameter \"query\"`,
		"query_cost":                                                `invalid parameter \"query\"`,
		"query_cost?query=m&time=x":                                 `invalid parameter \"time\"`,
		"query_cost?query=m&executor=abacus":                        `invalid parameter \"executor\"`,
		"query_cost?query=" + url.QueryEscape(many):                 "--query.max-selectors",
		"query_range_cost?query=m&start=0&end=60":                   `invalid parameter \"step\"`,
		"query_range_cost?query=m&start=60&end=0&step=1":            `invalid parameter \"end\"`,
		"query_range_cost?query=m&start=0&end=999999&step=1":        "11,000 points",
		"query_range_cost?query=m[5m]&start=0&end=600&step=60":      `invalid parameter \"query\"`,
		"query_cost?query=" + url.QueryEscape(`m{a=~"[}`):           `invalid parameter \"query\"`,
		"query_cost?query=m&limit=-1":                               `invalid parameter \"limit\"`,
		"query_cost?query=" + strings.Repeat("(", 3000):             "--query.max-depth",
		fmt.Sprintf("query_cost?query=m&time=%s", many[:1200]+"99"): `invalid parameter \"time\"`,
	} {
		w := do(t, a, httptest.NewRequest(http.MethodGet, "/api/v1/"+query, nil))
		require.Equal(t, 400, w.Code, "%.80s: %s", query, w.Body)
		require.Contains(t, w.Body.String(), want, "%.80s", query)
		require.Contains(t, w.Body.String(), `"errorType":"bad_data"`)
	}
	require.Equal(t, 405, do(t, a, httptest.NewRequest(http.MethodDelete, "/api/v1/query_cost", nil)).Code)
}

// TestCeilings: each endpoint that answers PromQL keeps to the most series and samples that a parameter or a
// header allows, whatever executes the query.
func TestCeilings(t *testing.T) {
	a := newCostAPI(t)
	ask := func(path string, headers ...string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := do(t, a, r)
		return w.Code, w.Body.String()
	}
	for _, path := range []string{
		"/api/v1/query?query=m&time=1800", "/api/v1/query_range?query=m&start=1200&end=1800&step=60", "/query?query=m&time=1800",
		"/query?query=m&time=1800&format=csv", "/explain?query=m&time=1800&analyze=true", "/api/v1/query?query=m[5m]&time=1800",
	} {
		for _, executor := range []string{"&executor=auto", "&executor=prometheus"} {
			for _, over := range [][]string{
				{"&max_series=1"}, {"&max_samples=1"}, {"", "X-Promwarp-Max-Series", "1"}, {"", "X-Promwarp-Max-Samples", "1"},
				{"&max_series=9", "X-Promwarp-Max-Series", "1"}, {"&max_series=1", "X-Promwarp-Max-Series", "9"},
			} {
				code, body := ask(path+executor+over[0], over[1:]...)
				require.Equal(t, 422, code, "%s %s: %s", path, over, body)
				require.Contains(t, body, `"errorType":"execution"`)
				require.Regexp(t, `query reads [0-9]+ (series|samples), [0-9]+ more than the 1 that max_(series|samples) allows; most of them, [0-9]+, are of `, body)
			}
			code, body := ask(path + executor + "&max_series=2&max_samples=1000")
			require.Equal(t, 200, code, body)
			code, body = ask(path+executor+"&max_series=0", "X-Promwarp-Max-Samples", "0")
			require.Equal(t, 200, code, body)
		}
		for _, wrong := range []string{"max_series=-1", "max_samples=many", "max_samples=1e3", "max_series=99999999999999999999"} {
			code, body := ask(path + "&" + wrong)
			require.Equal(t, 400, code, body)
			require.Contains(t, body, "use a whole number from 0")
		}
		code, body := ask(path, "X-Promwarp-Max-Series", "x")
		require.Equal(t, 400, code)
		require.Contains(t, body, "X-Promwarp-Max-Series")
	}
	code, body := ask("/query?metric=m&start=1200&end=1800&every=1m&max_series=1")
	require.Equal(t, 400, code)
	require.Contains(t, body, "unknown_field")
}
