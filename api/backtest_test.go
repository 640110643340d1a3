package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/backtest"
	"github.com/promwarp/promwarp/internal/memory"
)

// tries asks for a backtest.
func tries(t *testing.T, a http.Handler, form url.Values) (code int, reports []*backtest.Report, failure string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/api/v1/backtest", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := do(t, a, r)
	var got struct {
		Data  struct{ Rules []*backtest.Report }
		Error string
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), w.Body)
	return w.Code, got.Data.Rules, got.Error
}

const someRules = `
groups:
- name: g
  interval: 1m
  rules:
  - {record: "i:m:sum", expr: sum by (i) (m)}
  - {alert: Much, expr: m > 100, for: 5m}
  - {alert: Recorded, expr: "i:m:sum > 100 and on () m > 0"}
  - {alert: Matched, expr: "m * on () m > 1"}
`

// TestBacktest: rules of a file are tried on stored samples, together and one by one, with changes.
func TestBacktest(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 1 << 30})
	a := newTestAPI(t, func(o *Options) { o.Memory = pool })
	all := url.Values{"rules": {someRules}, "start": {"0"}, "end": {"7200"}}
	code, reports, _ := tries(t, a, all)
	require.Equal(t, http.StatusOK, code)
	require.Len(t, reports, 3)
	much, recorded, matched := reports[0], reports[1], reports[2]
	require.Equal(t, []any{"g", "Much", 2, 2, 300.}, []any{much.Group, much.Alert, len(much.Alerts), much.Fired, much.For})
	require.Equal(t, `{alertname="Much", i="1"}`, much.Alerts[0].Labels.String())
	require.Equal(t, "firing", much.Alerts[0].Spells[1].State)
	require.True(t, much.Alerts[0].Spells[1].Open)
	require.EqualValues(t, 112, much.Alerts[0].Spells[1].Value, "5 m later than m=102 at 51 m")
	require.Contains(t, recorded.Notes[0], `i:m:sum is recorded by a rule of this file, and the upstream has no samples of {__name__="i:m:sum"}`)
	require.Empty(t, recorded.Alerts)
	require.Contains(t, matched.Error, "found duplicate series", "one rule fails, and not all")

	// Changes are of one rule.
	one := url.Values{"rules": {someRules}, "alert": {"Much"}, "start": {"0"}, "end": {"7200"}, "what_if": {"true"}}
	_, reports, _ = tries(t, a, one)
	require.Equal(t, "m", reports[0].Threshold.Compared)
	before := reports[0].Alerts
	require.Equal(t, much.Alerts, before, "the comparison is Prometheus's")
	require.Positive(t, pool.Parts()[string(memory.Evaluation)], "what is compared is kept")
	for _, changed := range []struct {
		name, value string
		fired       int
	}{{"threshold", "220", 1}, {"threshold", "1e9", 0}, {"for", "30m", 1}, {"keep_firing_for", "1h", 2}} {
		one[changed.name] = []string{changed.value}
		_, reports, failure := tries(t, a, one)
		require.Empty(t, failure)
		require.Equal(t, changed.fired, reports[0].Fired, changed.name)
		delete(one, changed.name)
	}
	a.tried.Clear()

	// An expression alone, and a body of JSON.
	r := httptest.NewRequest(http.MethodPost, "/api/v1/backtest", strings.NewReader(`{"expr": "m > 100", "for": "5m", "alert": "Mine", "start": 0, "end": 7200, "interval": "1m"}`))
	r.Header.Set("Content-Type", "application/json")
	w := do(t, a, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `"alert":"Mine"`)
}

// TestBacktestRefuses: what is wrong with a request is said with what to do.
func TestBacktestRefuses(t *testing.T) {
	a := newTestAPI(t, nil)
	for name, c := range map[string]struct {
		form string
		code int
		says string
	}{
		"nothing":             {"start=0", 400, `give the text of a rule file, or expr`},
		"both":                {"start=0&expr=m&rules=groups:", 400, `give the text of a rule file, or expr`},
		"no start":            {"expr=m", 400, `"start": give the time`},
		"a wrong time":        {"expr=m&start=noon", 400, `noon`},
		"an end before":       {"expr=m&start=60&end=0", 400, `it is before the start`},
		"no YAML":             {"rules=[&start=0", 400, `yaml`},
		"no PromQL":           {"expr=sum(&start=0", 400, `unclosed left parenthesis`},
		"no alert":            {"start=0&alert=None&rules=" + url.QueryEscape(someRules), 400, `no such alerting rule`},
		"several":             {"start=0&for=1m&rules=" + url.QueryEscape(someRules), 400, `it is for one rule`},
		"no duration":         {"expr=m&start=0&for=soon", 400, `it is no duration such as 5m`},
		"no interval":         {"expr=m&start=0&interval=0", 400, `give a duration such as 1m`},
		"no number":           {"expr=m>1&start=0&threshold=much", 400, `it is no number`},
		"no comparison":       {"expr=m&start=0&threshold=1", 400, `has no outermost comparison with a number`},
		"what if":             {"expr=m&start=0&what_if=not", 400, `what_if`},
		"a moving end":        {"expr=m+@+end()&start=0", 400, `@ start() and @ end() mean another time`},
		"too many steps":      {"expr=m&start=0&end=100000000", 422, `at most 1000000 are tried`},
		"between evaluations": {"expr=m&start=60.001&end=60.002", 422, `at no time`},
		"many-to-many":        {"expr=m*on()m&start=0&end=600", 422, `found duplicate series`},
	} {
		t.Run(name, func(t *testing.T) {
			form, err := url.ParseQuery(c.form)
			require.NoError(t, err)
			code, _, failure := tries(t, a, form)
			require.Equal(t, c.code, code, failure)
			require.Contains(t, failure, c.says)
		})
	}
}

// BenchmarkWhatIf moves the threshold of a rule over 90 days at a minute's interval: where values rise and
// fall steadily, and amid noise, where alerts change tens of thousands of times.
func BenchmarkWhatIf(b *testing.B) {
	var load strings.Builder
	load.WriteString("load 1m\n")
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 10 {
		fmt.Fprintf(&load, "	ramp{i=\"%d\"} %s\n", i, strings.Repeat(fmt.Sprintf("0+%dx720 ", i+1), 180))
		fmt.Fprintf(&load, "	noise{i=\"%d\",instance=\"host-%d.example.com:9100\",job=\"node\",zone=\"eu-1\"}", i, i)
		for range 90 * 1440 {
			fmt.Fprintf(&load, " %.3f", 100*r.Float64())
		}
		load.WriteString("\n")
	}
	e := newEngine(b, func(o *promql.EngineOpts) { o.MaxSamples = 50_000_000 })
	storage := newStorage(b, load.String())
	a := newTestAPI(b, func(o *Options) { o.Engine, o.Queryable = e, storage })
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for _, c := range []struct {
		name, metric, hold, keep string
		least, most              float64 // threshold
	}{
		{"steady", "ramp", "10m", "", 100, 5000},
		{"pending", "noise", "10m", "", 96, 97},
		{"firing", "noise", "0s", "", 96, 97},
		{"firing on", "noise", "0s", "5m", 96, 97},
		{"most changes", "noise", "0s", "", 92, 92.5},
	} {
		b.Run(c.name, func(b *testing.B) {
			var w *httptest.ResponseRecorder
			n := 0
			ask := func() {
				threshold := c.least + (c.most-c.least)*float64(n%20)/20
				form := url.Values{"expr": {fmt.Sprintf("%s > %g", c.metric, threshold)}, "start": {"0"}, "end": {fmt.Sprint(90 * 86400)}, "what_if": {"true"}, "for": {c.hold}, "keep_firing_for": {c.keep}}
				r := httptest.NewRequest(http.MethodPost, "/api/v1/backtest", strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				w = httptest.NewRecorder()
				a.ServeHTTP(w, r)
				require.Equal(b, http.StatusOK, w.Code, w.Body)
				n++
			}
			ask()
			began := used()
			for b.Loop() {
				ask()
			}
			b.ReportMetric(float64((used()-began).Microseconds())/1000/float64(n-1), "CPU-ms/op")
			b.ReportMetric(float64(strings.Count(w.Body.String(), `"state"`)), "spells")
		})
	}
}
