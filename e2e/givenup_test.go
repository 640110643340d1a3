package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

const (
	// givenUpGrace is for how long a request may still take a processor once its client has gone.
	givenUpGrace = 100 * time.Millisecond
	// treeGrace is the same for hundreds of selectors, each of which ends by itself: about 50 ms of a
	// processor on a machine with nothing else to do, 300 on a busy one.
	treeGrace = time.Second
	// givenUpWatch is for how long it is then watched.
	givenUpWatch = 300 * time.Millisecond
	// givenUpBound is what the process takes meanwhile at most: it is asked for its metrics, and the
	// collector finishes a cycle.
	givenUpBound = 100 * time.Millisecond
)

// givenUp is a request that takes long.
type givenUp struct {
	name    string
	cold    bool // over a cache that has nothing
	many    bool // selectors
	request func(base string) (*http.Request, error)
}

// heavyRequests are requests of several kinds that take long over the shared data.
func heavyRequests(g grid) []givenUp {
	const all = `{__name__=~".+"}`
	form := func(path string, values url.Values) func(string) (*http.Request, error) {
		return func(base string) (*http.Request, error) { return formRequest(base+path, values.Encode()) }
	}
	fine := grid{g.start, g.end, 15 * time.Second}
	ranged := func(q string) func(string) (*http.Request, error) { return form(rangePath, fine.rangeForm(q)) }
	read := func(types ...prompb.ReadRequest_ResponseType) func(string) (*http.Request, error) {
		return func(base string) (*http.Request, error) {
			return readList(func(r *prompb.ReadRequest, _ int) {
				r.AcceptedResponseTypes = types
				r.Queries = append(r.Queries, &prompb.Query{StartTimestampMs: g.start.UnixMilli() + 1, EndTimestampMs: g.end.UnixMilli() - 1,
					Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}}})
			})(base, 4)
		}
	}
	var labels []string
	for i := range 190 {
		labels = append(labels, fmt.Sprint("l", i))
	}
	resample := url.Values{"match[]": {all}, "start": {seconds(g.start)}, "end": {seconds(g.end)}, "every": {"1m"}, "aggregates": {"median,95pct,nunique"}, "by": {"instance,job,__name__," + strings.Join(labels, ",")}}
	table := url.Values{"format": {"csv"}}
	for name, values := range fine.rangeForm("avg_over_time(" + all + "[1m])") {
		table[name] = values
	}
	tree := selectorTree(900, func(i int) string { return fmt.Sprintf(`max_over_time(up{instance!="none-%d"}[1h])`, i) }, " or ")
	return []givenUp{
		{"a first look", true, false, ranged(`sum by (job) (rate(` + all + `[5m]))`)},
		{"a remote read of chunks, first look", true, false, read(prompb.ReadRequest_STREAMED_XOR_CHUNKS)},
		{"a resample request, first look", true, false, form("/query", resample)},
		{"cached samples, windows", false, false, ranged(`quantile by (job) (0.9, quantile_over_time(0.5, ` + all + `[6h]))`)},
		{"cached samples, Prometheus's engine", false, false, ranged(`count_values by (job) ("v", ` + all + `)`)},
		{"cached samples, a large answer", false, false, ranged(all)},
		{"a table", false, false, form("/query", table)},
		{"a tree of selectors", false, true, ranged(tree)},
		{"a resample request", false, false, form("/query", resample)},
		{"a resample request, as Arrow", false, false, form("/query?format=arrow", resample)},
		{"a remote read of samples", false, false, read(prompb.ReadRequest_SAMPLES)},
		{"a remote read of chunks", false, false, read(prompb.ReadRequest_STREAMED_XOR_CHUNKS)},
		{"federate", false, false, func(base string) (*http.Request, error) {
			return http.NewRequest(http.MethodGet, base+"/federate?"+strings.Repeat("&match[]="+url.QueryEscape(all), 100), nil)
		}},
		{"series", false, false, form("/api/v1/series", url.Values{"match[]": {all, all, all, all, all, all}, "start": {seconds(g.start)}})},
	}
}

// TestGivenUp: a request whose client has gone takes no processor any more, at whatever stage it is.
func TestGivenUp(t *testing.T) {
	up := upstream(t)
	addr := mustFreeAddr(t)
	args := append(promwarpArgs(addr, up.url), "--gpu.mode=off", "--web.enable-admin-api", "--query.max-samples=1000000000", "--storage.remote.read-sample-limit=0")
	pw := runServer(t, "promwarp", addr, promwarpBin, args...)
	ask(t, pw.url, rangePath, up.grid.rangeForm(`count({__name__=~".+"})`))
	for _, h := range heavyRequests(up.grid) {
		for _, after := range []time.Duration{20, 100, 300, 1000} {
			after *= time.Millisecond
			var took, whole time.Duration
			for range 3 { // the collector, and what else a process has to do, may take a processor at times
				if h.cold {
					require.Equal(t, http.StatusOK, ask(t, pw.url, "/api/v1/admin/cache/drop", url.Values{"match[]": {`{__name__=~".+"}`}}).code)
				}
				if took, whole = h.leave(t, pw, after); took <= givenUpBound {
					break
				}
			}
			t.Logf("%-38s left after %4.0f ms: %5.1f ms of a processor in %s", h.name, ms(whole), ms(took), givenUpWatch)
			require.LessOrEqual(t, took, givenUpBound, "%s, left after %s", h.name, whole)
			if whole < after {
				break // it is over before
			}
		}
	}
}

// leave sends the request, leaves after a while, and returns what the process then takes of
// processors, and how long the client was there.
func (h givenUp) leave(t *testing.T, pw *process, after time.Duration) (took, there time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	r, err := h.request(pw.url)
	require.NoError(t, err)
	begun := time.Now()
	if resp, err := client.Do(r.WithContext(ctx)); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	there = time.Since(begun)
	cancel()
	if h.many {
		time.Sleep(treeGrace)
	} else {
		time.Sleep(givenUpGrace)
	}
	before := gauge(t, pw, "process_cpu_seconds_total")
	time.Sleep(givenUpWatch)
	return time.Duration((gauge(t, pw, "process_cpu_seconds_total") - before) * float64(time.Second)), there
}
