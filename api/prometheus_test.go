package api

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/route"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/features"
	"github.com/prometheus/prometheus/util/notifications"
	v1 "github.com/prometheus/prometheus/web/api/v1"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine"
)

// nothing answers for what promwarp does not have: scraping, rules, exemplars.
type nothing struct{}

func (nothing) ScrapePools() []string                       { return []string{} }
func (nothing) TargetsActive() map[string][]*scrape.Target  { return nil }
func (nothing) TargetsDropped() map[string][]*scrape.Target { return nil }
func (nothing) TargetsDroppedCounts() map[string]int        { return map[string]int{} }
func (nothing) Alertmanagers() []*url.URL                   { return nil }
func (nothing) DroppedAlertmanagers() []*url.URL            { return nil }
func (nothing) RuleGroups() []*rules.Group                  { return nil }
func (nothing) AlertingRules() []*rules.AlertingRule        { return nil }
func (nothing) ScrapePoolConfig(string) (*promconfig.ScrapeConfig, error) {
	return &promconfig.ScrapeConfig{}, nil
}

func (n nothing) ExemplarQuerier(context.Context) (storage.ExemplarQuerier, error) { return n, nil }

func (nothing) Select(int64, int64, ...[]*labels.Matcher) ([]exemplar.QueryResult, error) {
	return []exemplar.QueryResult{}, nil
}

// prometheusAPI is Prometheus's own API as it comes, over a's engine and storage. Its document has the
// paths that begin with those described.
func prometheusAPI(a *API, described ...string) http.Handler {
	var none nothing
	of := features.NewRegistry()
	a.o.Parser.RegisterFeatures(of)
	api := v1.NewAPI(
		counting{a.o.Engine}, a.o.Queryable,
		nil, nil, // appenders
		none,
		func(context.Context) v1.ScrapePoolsRetriever { return none },
		func(context.Context) v1.TargetRetriever { return none },
		func(context.Context) v1.AlertmanagerRetriever { return none },
		a.o.Config, a.o.Flags,
		v1.GlobalURLOptions{},
		func(h http.HandlerFunc) http.HandlerFunc { return h },
		nil, "", // TSDB
		false,    // admin
		false, 0, // search
		promslog.NewNopLogger(),
		func(context.Context) v1.RulesRetriever { return none },
		0, 0, 0, // of its remote read
		false, // agent
		a.o.CORSOrigin,
		func() (v1.RuntimeInfo, error) { return v1.RuntimeInfo(a.o.RuntimeInfo()), nil },
		&v1.PrometheusVersion{},
		func() []notifications.Notification { return []notifications.Notification{} },
		func() (<-chan notifications.Notification, func(), bool) { return nil, func() {}, false },
		a.o.Gatherer,
		nil,        // registerer
		nil,        // stats renderer
		false, nil, // remote write
		false, false, false, // OTLP
		false, // start timestamps
		0,     // lookback, of OTLP
		false, // type and unit labels
		false, // metadata
		nil,   // error codes
		of,
		v1.OpenAPIOptions{Version: PrometheusVersion, IncludePaths: described},
		a.o.Parser,
	)
	r := route.New().WithPrefix(prefix)
	api.Register(r)
	return r
}

// counting is an engine whose queries have statistics, as those of Prometheus's engine always do.
type counting struct{ Engine }

func (e counting) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	return e.NewQuery(ctx, engine.Request{Storage: q, Options: opts, Query: qs, Start: ts, Statistics: true})
}

func (e counting) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	return e.NewQuery(ctx, engine.Request{Storage: q, Options: opts, Query: qs, Start: start, End: end, Step: interval, Statistics: true})
}

// manySeries are enough for answers that are streamed.
func manySeries() string {
	var b strings.Builder
	b.WriteString("load 15s\n")
	for i := range 60 {
		fmt.Fprintf(&b, "\tm{i=\"%d\",odd=\"<&>\\\"\u2028\"} %d+%d.37x60 _x9 1 2 NaN -Inf\n", i, i, i)
		fmt.Fprintf(&b, "\tc_total{i=\"%d\"} 0+%dx80\n", i, i)
	}
	b.WriteString("\th{i=\"0\"} {{schema:1 sum:-0.3 count:3.1 z_bucket:7.1 z_bucket_w:0.05 buckets:[5.1 10 7]}}x60\n")
	b.WriteString("\tslash{\"a/b\"=\"c\",\"a b\"=\"<x>\"} 1x60\n")
	return b.String()
}

// changing is what differs from run to run.
var changing = regexp.MustCompile(`"timings":\{[^}]*\}|"serverTime":"[^"]*"|"goroutineCount":\d+`)

// fetch gets an answer from a server and decompresses it.
func fetch(t *testing.T, base, path, encoding string) (body string, h http.Header, code int) {
	t.Helper()
	method, path, form := http.MethodGet, path, ""
	if other, rest, ok := strings.Cut(path, " "); ok { // POST /path?form
		method = other
		path, form, _ = strings.Cut(rest, "?")
	}
	r, err := http.NewRequest(method, base+path, strings.NewReader(form))
	require.NoError(t, err)
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Origin", "http://page")
	// Set here, it is not undone by the transport.
	r.Header.Set("Accept-Encoding", encoding)
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	from := resp.Body
	switch resp.Header.Get("Content-Encoding") {
	case "gzip":
		from, err = gzip.NewReader(resp.Body)
	default:
		resp.Header.Set("Body-Length", fmt.Sprint(resp.ContentLength))
	}
	require.NoError(t, err)
	b, err := io.ReadAll(from)
	require.NoError(t, err)
	resp.Header.Del("Date")
	resp.Header.Del("Content-Length") // of compressed bytes, or noted above
	if encoding != "identity" || changing.Match(b) {
		resp.Header.Del("Content-Encoding") // short answers are compressed by Prometheus alone
		resp.Header.Del("Body-Length")
	}
	return changing.ReplaceAllString(string(b), ""), resp.Header, resp.StatusCode
}

// same asks both servers, and fails where an answer has another status, header or byte.
func same(t *testing.T, here, there, path, encoding string) (answer string) {
	t.Helper()
	want, wantHeader, wantCode := fetch(t, there, path, encoding)
	got, gotHeader, gotCode := fetch(t, here, path, encoding)
	what := fmt.Sprintf("%.200s %s", path, encoding)
	if want != got {
		i := 0
		for i < min(len(want), len(got)) && want[i] == got[i] {
			i++
		}
		t.Fatalf("%s: byte %d of %d and %d:\nwant …%.150q\ngot  …%.150q", what, i, len(want), len(got), want[max(0, i-50):], got[max(0, i-50):])
	}
	require.Equal(t, wantCode, gotCode, what)
	wantHeader.Set("X-Content-Type-Options", "nosniff") // on all of promwarp's answers
	require.Equal(t, wantHeader, gotHeader, what)
	return got
}

// TestSameBytesAsPrometheus compares answers to queries with those of Prometheus's API as
// it comes, over the same engine and data.
func TestSameBytesAsPrometheus(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	here, there := httptest.NewServer(a), httptest.NewServer(prometheusAPI(a, "none"))
	defer here.Close()
	defer there.Close()
	streamed := 0
	for _, c := range []url.Values{
		{"query": {"m"}},
		{"query": {"m / 7"}},
		{"query": {"-m"}},
		{"query": {"m"}, "limit": {"40"}},
		{"query": {"m"}, "limit": {"1"}},
		{"query": {"m"}, "stats": {"all"}},
		{"query": {"rate(m[1m])"}, "stats": {"true"}}, // with an info
		{"query": {"rate(c_total[1m])"}},
		{"query": {"sort(c_total)"}},
		{"query": {"m or h"}},
		{"query": {"h"}},
		{"query": {"rate(h[2m])"}},
		{"query": {`quantile(2, m)`}}, // with a warning
		{"query": {`label_replace(m, "j", "$1", "i", "(.*)") / 3`}},
		{"query": {"sum(m)"}},
		{"query": {"1e300"}},
		{"query": {"nothing"}},
		{"query": {"m["}},
		{"query": {"m * on() m"}},
		{"query": {"m[20m]"}},
		{"query": {"m[20m] @ 600"}, "time": {"600"}},
		{"query": {`"<&>\u2028"`}},
		{"query": {"time()"}, "time": {"600.123"}},
		{"query": {"m"}, "time": {"600.123"}},
		{"query": {"h"}, "time": {"600"}},
	} {
		for _, path := range []string{"/api/v1/query", "/api/v1/query_range"} {
			form := maps.Clone(c)
			if path == "/api/v1/query_range" {
				form.Set("start", "0")
				form.Set("end", "1200.5")
				form.Set("step", "2.5")
				form.Del("time")
			} else if form.Get("time") == "" {
				form.Set("time", "900")
			}
			for _, encoding := range []string{"identity", "gzip", "br, gzip"} {
				got := same(t, here.URL, there.URL, path+"?"+form.Encode(), encoding)
				if len(got) > 20*1024 && !strings.Contains(got, "histogram") {
					streamed++
				}
			}
		}
	}
	require.Greater(t, streamed, 10)
}

// TestDoorsAsPrometheus asks each door of Prometheus's API that answers here with good and bad
// parameters, and compares with what that API answers.
func TestDoorsAsPrometheus(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.Queryable, o.Flags = newStorage(t, manySeries()), map[string]string{"a": "<b>", "c": "d"}
	})
	here, there := httptest.NewServer(a), httptest.NewServer(prometheusAPI(a, "none"))
	defer here.Close()
	defer there.Close()
	ask := func(path string, parameters ...string) {
		for i, p := range parameters {
			encoding := "identity"
			if i%4 == 3 {
				encoding = "gzip"
			}
			same(t, here.URL, there.URL, path+"?"+strings.NewReplacer(" ", "%20", "\"", "%22", "+", "%2B", "<", "%3C").Replace(p), encoding)
		}
	}
	both := func(path string, parameters ...string) {
		ask(prefix+path, parameters...)
		ask("POST "+prefix+path, parameters...)
	}
	many := strings.Repeat("9", 30)
	wrong := []string{
		"time=noon", "time=NaN", "time=1e30", "time=-1", "time=600.0015", "time=1970-01-01T00:10:00Z", "time=-292273086-05-16T16:47:06Z",
		"time=292277025-08-18T07:12:54.999999999Z", "timeout=soon", "timeout=0", "timeout=-1s", "timeout=NaN", "timeout=1e300", "timeout=1m",
		"lookback_delta=x", "lookback_delta=1m", "lookback_delta=60", "lookback_delta=1e300", "limit=x", "limit=-1", "limit=0", "limit=" + many,
		"stats=yes", "stats=%0C%08", "limit=x&time=noon", "time=noon&timeout=soon", "lookback_delta=x&timeout=x", "x=;", "%zz",
	}
	for _, p := range wrong {
		both("/query", "query=m&time=600&"+p, p+"&query=m%20offset%201m&time=600", "query=sum(&time=600&"+p)
		both("/query_range", "query=m&start=0&end=600&step=60&"+p)
	}
	both("/query_range",
		"query=m", "query=m&start=0", "query=m&start=0&end=1", "query=m&start=2&end=1&step=1", "query=m&start=0&end=1&step=0",
		"query=m&start=0&end=1&step=NaN", "query=m&start=0&end=11001&step=1", "query=m&start=x&end=1&step=1", "query=m&start=0&end=x&step=1",
		"query=m&start=0&end=1&step=x", "query=m&start=0&end=1&step=1e300", "query=m&start=0.123&end=60.987&step=7.77",
		"query=m&start=0&end=600&step=1m", "query=&start=0&end=1&step=1", "query=m&start=1970-01-01T00:00:00Z&end=1970-01-01T01:00:00Z&step=5m")
	queries := []string{
		"m", "", "m[", "sum(", "\xff", "m\b\f<", "sum by (a, b) (m)", `sum without (a) (m{x=~"b.*",y!="<&>"})`, "topk(3, m offset 5m)", "m[5m:1m] offset 1m",
		"m[5m:]", "m @ start()", "max_over_time(m[1h] @ end())", "m @ 123.456", "a + on(x) group_left(y) b", "a * ignoring(x) group_right b",
		"a > bool b", "-(a)", `"str"`, "1e-9", "1e30", "Inf", "NaN", "m[2m+3m]", "m offset (1m*2)", "m[step()]", "rate(m[max(5m,step())])",
		"a + fill(0) b", "a + fill_left(NaN) b", "a + fill_left(1e-8) b", "m[5m] anchored", "rate(m[5m] smoothed)", `count_values("x", m)`,
		`label_join(m,"a",",","b")`, `{"a b","c.d"="e"}`, `sum by ("a.b") (m)`, "a and b or c unless d", "info(m)", "2 ^ 3 % 4 atan2 5",
		"m[5m:1m+2m]", "m offset -(1m)", "1", "time()",
	}
	for _, q := range queries {
		for _, path := range []string{"/format_query", "/parse_query"} {
			both(path, "query="+url.QueryEscape(q))
		}
	}
	both("/query_exemplars", "query=m&start=0&end=1")
	lists := []string{
		"", "match[]=m", "match[]=m&match[]=c_total", "match[]=", "match[]={}", `match[]={x=""}`, "match[]=m[", "match[]=nothing", "limit=x", "limit=-1",
		"limit=2&match[]=c_total&match[]=h", "limit=1000&match[]=m", "start=x", "end=x", "start=2&end=1", "start=0&end=60&match[]=m&match[]=h",
		"start=1e9&end=1e9&match[]=m&match[]=h", "start=NaN", `match[]={odd=~".*<.*"}&match[]=h`, "%zz", "match[]=h&limit=1",
	}
	both("/labels", lists...)
	both("/series", lists[:2]...)
	for _, path := range []string{"/label/i/values", "/label/odd/values", "/label/U__a_2f_b/values", "/label/a%20b/values", "/label/U__%FF/values", "/label/no.dot/values", "/label/%FF/values"} {
		ask(prefix+path, lists...)
	}
	for _, p := range lists {
		if p != "match[]=m" && p != "limit=1000&match[]=m" { // series of one selector have no order
			both("/series", p)
		}
	}
	for _, p := range []string{
		"", "limit=3", "limit_per_metric=2&limit=3", "metric=m", `match_target={a="b"}`, "state=dropped", "type=alert", "type=Record",
		"exclude_alerts=true", "group_limit=2", "match[]=m", "query=m", "metric_name_pattern=none",
	} {
		for _, path := range []string{
			"/metadata", "/targets", "/targets/metadata", "/scrape_pools", "/rules", "/alerts", "/alertmanagers", "/status/config", "/status/flags",
			"/status/runtimeinfo", "/status/self_metrics", "/notifications", "/notifications/live",
		} {
			ask(prefix+path, p)
		}
	}
	ask(prefix+"/status/self_metrics", "metric_name_pattern=(")
	same(t, here.URL, there.URL, "OPTIONS "+prefix+"/query", "identity")
}
