//go:build clients

package e2e

import (
	"bytes"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

// outageRules are of an instance that is down all the time. Guarded is Gone as docs/rules.md has it for a Prometheus
// that reads over remote read.
const outageRules = `
groups:
- name: outage
  rules:
  - {record: 'steady:up', expr: 'sum by (instance) (up{job="steady"})'}
  - {alert: Watchdog, expr: 'vector(1)'}
  - {alert: Down, expr: 'up{job="steady"} == 0', for: 2s}
  - {alert: Kept, expr: 'up{job="steady"} == 0', for: 2s, keep_firing_for: 10m}
  - {alert: Gone, expr: 'absent(up{job="steady"})'}
  - {alert: Guarded, expr: 'absent(up{job="steady"}) and on () count(up) > 0'}
  - {alert: Nowhere, expr: 'absent(up{job="nowhere"}) and on () count(up) > 0'}
`

// way is a ruler's way to a promwarp that may be away, or another one.
type way struct {
	URL    string
	to     atomic.Pointer[url.URL] // nil cuts connections off
	failed atomic.Int64            // requests that were not answered with 200
}

func newWay(t *testing.T) *way {
	t.Helper()
	w := &way{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(w.to.Load()) },
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				w.failed.Add(1)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			w.failed.Add(1)
			panic(http.ErrAbortHandler)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	w.URL = server.URL
	return w
}

// overloaded is a promwarp that refuses all requests, as its only slots are taken by some that wait for an upstream
// that does not answer any more.
func overloaded(t *testing.T, upstream string) *process {
	t.Helper()
	var hangs atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(mustURL(t, upstream))
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if hangs.Load() {
			_, _ = io.Copy(io.Discard, req.Body) // after which the server sees that the client leaves
			<-req.Context().Done()
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(slow.Close)
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, append(promwarpArgs(addr, slow.URL),
		"--query.max-concurrency=1", "--query.max-queue=1", "--query.max-queue-time=1ms", "--storage.remote.read-concurrent-limit=1")...)
	hangs.Store(true)
	read, err := (&prompb.ReadRequest{Queries: []*prompb.Query{{
		EndTimestampMs: time.Now().UnixMilli(),
		Matchers:       []*prompb.LabelMatcher{{Name: "__name__", Value: "up"}},
	}}}).Marshal()
	require.NoError(t, err)
	status := func(path, kind string, body []byte) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, pw.URL+path, bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", kind)
		if path == "/api/v1/read" {
			req.Header.Set("Content-Encoding", "snappy")
		}
		resp, err := client.Do(req)
		if err != nil { // the test has ended
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for path, ask := range map[string]func() int{
		"/api/v1/query": func() int { return status("/api/v1/query", "application/x-www-form-urlencoded", []byte("query=up")) },
		"/api/v1/read":  func() int { return status("/api/v1/read", "application/x-protobuf", snappy.Encode(nil, read)) },
	} {
		// Of two at once one is refused, and the other one has the slot.
		codes := make(chan int, 1000)
		go func() { codes <- ask() }()
		require.Eventually(t, func() bool {
			go func() { codes <- ask() }()
			select {
			case code := <-codes:
				return code == http.StatusServiceUnavailable
			case <-time.After(100 * time.Millisecond):
				return false
			}
		}, 20*time.Second, 100*time.Millisecond, "%s is refused", path)
	}
	return pw
}

// TestRulersOutage: what rulers do while promwarp is restarted, and while it refuses requests. Rulers over HTTP
// record nothing meanwhile, and leave alerts as they are. A Prometheus goes on without the samples that it cannot
// read: alerts on absence fire, and others end.
func TestRulersOutage(t *testing.T) {
	thanos, err := buildThanos()
	require.NoError(t, err)
	on := startRuled(t, "")
	file := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, []byte(outageRules), 0o600))
	app := programs.RemoteWrite(on.up.URL).Appender(t.Context())
	var ref storage.SeriesRef
	begin := time.Now().Add(-10 * time.Second) // before the first evaluation, which may be as of the second before
	for second := range 540 {
		l := labels.FromStrings("__name__", "up", "job", "steady", "instance", "a")
		ref, err = app.Append(ref, l, begin.Add(time.Duration(second)*time.Second).UnixMilli(), 0)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())

	rulers, ways := map[string]*ruler{}, map[string]*way{}
	for name, run := range map[string]func(source string, r *ruler){
		"vmalert": func(source string, r *ruler) {
			liveVMAlert(t, file, source, r)
		},
		"Thanos": func(source string, r *ruler) { thanosRuler(t, thanos, file, "--query="+source, r) },
		"Prometheus": func(source string, r *ruler) {
			prometheus(t, mustFreeAddr(t), t.TempDir(), rulerConfig(t, file, source, r))
		},
	} {
		ways[name], rulers[name] = newWay(t), &ruler{newReceiver(t, ""), newAlertmanager(t), false, nil}
		ways[name].to.Store(mustURL(t, on.pw.URL))
		run(ways[name].URL, rulers[name])
	}
	firing := func(r *ruler, alert string) bool {
		times := r.evaluated()
		return len(times) > 0 && hasAlert(r.at("ALERTS")[times[len(times)-1]], alert, "firing")
	}
	all := func(what string, holds func(name string, r *ruler) bool) {
		t.Helper()
		for name, r := range rulers {
			require.Eventually(t, func() bool { return holds(name, r) }, time.Minute, 100*time.Millisecond, "%s: %s", name, what)
		}
	}
	refusing := overloaded(t, on.up.URL)
	for _, outage := range []struct {
		name       string
		begin, end func()
	}{
		{"restarted", func() {
			on.pw.signal(syscall.SIGTERM)
			require.Zero(t, on.pw.wait(t, 20*time.Second))
		}, func() {
			addr := strings.TrimPrefix(on.pw.URL, "http://")
			on.pw = runServer(t, "promwarp", addr, promwarpBin, promwarpArgs(addr, on.up.URL)...)
		}},
		{"overloaded", func() {
			for _, w := range ways {
				w.to.Store(mustURL(t, refusing.URL))
			}
		}, func() {
			for _, w := range ways {
				w.to.Store(mustURL(t, on.pw.URL))
			}
		}},
	} {
		all("fires before the outage", func(_ string, r *ruler) bool { return firing(r, "Down") && firing(r, "Kept") })
		from := time.Now().UnixMilli()
		failed := map[string]int64{}
		for name, w := range ways {
			failed[name] = w.failed.Load()
		}
		outage.begin()
		all("asks in vain", func(name string, _ *ruler) bool { return ways[name].failed.Load() >= failed[name]+20 })
		outage.end()
		ended := time.Now().UnixMilli()
		all("fires after the outage", func(_ string, r *ruler) bool {
			times := r.evaluated()
			return times[len(times)-1] > ended+1000 && firing(r, "Down") && firing(r, "Nowhere") && !firing(r, "Gone")
		})
		for name, r := range rulers {
			t.Run(outage.name+"/"+name, func(t *testing.T) { requireOutage(t, r, from, name == "Prometheus") })
		}
	}
	require.Empty(t, rulers["vmalert"].of("Gone"))
	require.Empty(t, rulers["Thanos"].of("Gone"))
	require.NotEmpty(t, rulers["Prometheus"].of("Gone"), "the false alert is sent")
}

// requireOutage requires of what a ruler recorded since from that it is what docs/rules.md says of an outage.
func requireOutage(t *testing.T, r *ruler, from int64, reader bool) {
	t.Helper()
	alerts, since := r.at("ALERTS"), map[float64]bool{}
	counts := map[string]int{} // of evaluations
	for _, at := range r.evaluated() {
		if at < from {
			continue
		}
		for _, alert := range []string{"Down", "Kept", "Gone", "Guarded"} {
			for _, state := range []string{"pending", "firing"} {
				if hasAlert(alerts[at], alert, state) {
					counts[alert+" "+state]++
				}
			}
		}
		for name, v := range r.at("ALERTS_FOR_STATE")[at] {
			if strings.Contains(name, `"Down"`) {
				since[v] = true
			}
		}
	}
	stale := 0
	r.receiver.mu.Lock()
	for at, v := range r.samples[`{__name__="steady:up", instance="a"}`] {
		if at >= from && value.IsStaleNaN(v) {
			stale++
		}
	}
	recorded := slices.Sorted(maps.Keys(r.samples[`{__name__="steady:up", instance="a"}`]))
	r.receiver.mu.Unlock()
	longest := int64(0)
	for i := 1; i < len(recorded); i++ {
		if recorded[i] >= from {
			longest = max(longest, recorded[i]-recorded[i-1])
		}
	}
	t.Log(counts, "began", len(since), "times; stale markers", stale, "longest gap in ms", longest)
	require.Greater(t, longest, int64(1500), "something was not recorded")
	require.Zero(t, counts["Kept pending"])
	require.Zero(t, counts["Guarded pending"]+counts["Guarded firing"])
	require.Positive(t, counts["Kept firing"])
	if reader {
		require.Positive(t, counts["Gone firing"], "the alert is false")
		require.Positive(t, counts["Down pending"], "the alert began anew")
		require.Equal(t, 1, stale)
		return
	}
	require.Zero(t, counts["Gone firing"]+counts["Gone pending"])
	require.Zero(t, counts["Down pending"])
	require.Len(t, since, 1, "the alert did not begin anew")
	require.Zero(t, stale)
}

// hasAlert tells whether an alert has a state among samples of ALERTS.
func hasAlert(samples map[string]float64, alert, state string) bool {
	for name := range samples {
		if strings.Contains(name, `alertname="`+alert+`"`) && strings.Contains(name, `alertstate="`+state+`"`) {
			return true
		}
	}
	return false
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}
