package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCostOfFile: queries are printed with what costs most first, added up, and with why something is not
// known of one, or the server refuses it.
func TestCostOfFile(t *testing.T) {
	answers := map[string]string{
		"sum(few)": `{"status": "success", "data": {"estimate": {"seriesTouched": 2, "samplesRead": 40}, "complete": true, "fetch_bytes": 0, "cached_bytes": 2048,
			"cores_us": {"now": {"evaluate": 80, "total": 80}, "cold": {"total": 900}, "warm": {"total": 80}}, "dominates": {"selector": "few", "phase": "evaluate"}}}`,
		"sum(many)": `{"status": "success", "data": {"estimate": {"seriesTouched": 500, "samplesRead": 9000}, "complete": true, "fetch_bytes": 4096, "memory_bytes": 1048576,
			"cores_us": {"now": {"total": 12345}, "cold": {"total": 23456}, "warm": {"total": 345}}, "dominates": {"selector": "many", "phase": "fetch"}}}`,
		"unknown": `{"status": "success", "data": {"estimate": {}, "complete": false, "cores_us": null}, "warnings": ["nothing is cached of it"]}`,
		"sum(":    `{"status": "error", "errorType": "bad_data", "error": "unclosed parenthesis"}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/api/v1/query_range_cost") {
			http.NotFound(w, r)
			return
		}
		answer := answers[r.FormValue("query")]
		if strings.Contains(answer, `"error"`) {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	o := compareOptions{files: []string{""}, scrape: 15 * time.Second, format: "table"}
	o.server.URL = s.URL
	ask := func() string {
		var out strings.Builder
		require.NoError(t, runCost(t.Context(), o, strings.NewReader("sum(few)\nsum(\nunknown\nsum(many)\n"), &out, io.Discard))
		return out.String()
	}
	var lines []string
	for line := range strings.Lines(ask()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"NOW COLD WARM FETCH CACHED MEMORY SERIES SAMPLES MOST OF IT PANEL QUERY",
		"12.348ms 23.46ms 345µs 4KiB 0B 1MiB 500 9000 fetch many sum(many)",
		"80µs 900µs 80µs 0B 2KiB 0B 2 40 evaluate few sum(few)",
		"? ? ? 0B 0B 0B 0 0 unknown",
		"",
		"4 queries: 12.42ms on cores as things are cached now, 4KiB to be fetched, 9040 samples.",
		"sum(: unclosed parenthesis",
		"unknown: nothing is cached of it",
	}, lines)
	o.format = "json"
	var rows []struct {
		Query, Error string
		Cost         *struct{ Complete bool }
	}
	require.NoError(t, json.Unmarshal([]byte(ask()), &rows))
	require.Len(t, rows, 4)
	require.True(t, rows[0].Query == "sum(many)" && rows[0].Cost.Complete)
	require.True(t, rows[2].Query == "sum(" && rows[2].Cost == nil && rows[2].Error == "unclosed parenthesis", "%+v", rows[2])
}
