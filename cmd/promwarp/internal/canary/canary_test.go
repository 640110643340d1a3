package canary

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/stats"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/internal/memory"
)

// asked is a query that was evaluated.
type asked struct {
	promql.Query
	text      string
	end       time.Time
	executors string
}

func (a asked) String() string    { return a.text }
func (a asked) Executors() string { return a.executors }
func (a asked) Stats() *stats.Statistics {
	timers := stats.NewQueryTimers()
	timers.GetTimer(stats.EvalTotalTime).Start()
	time.Sleep(time.Millisecond)
	timers.GetTimer(stats.EvalTotalTime).Stop()
	return &stats.Statistics{Timers: timers}
}
func (a asked) Statement() parser.Statement {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(a.text)
	if err != nil {
		panic(err)
	}
	return &parser.EvalStmt{Expr: expr, Start: a.end.Add(-time.Hour), End: a.end, Interval: time.Minute, LookbackDelta: 5 * time.Minute}
}

// scalar is an answer.
func scalar(value string) string {
	return `{"status":"success","data":{"resultType":"scalar","result":[1,"` + value + `"]}}`
}

// promwarpOf answers with a value by executors on cores, and with another by Prometheus's engine.
func promwarpOf(auto, inside string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := auto
		if r.FormValue("executor") == "prometheus" {
			answer = inside
		}
		if answer == "busy" {
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = `"status":"error","errorType":"unavailable","error":"later"`
			fmt.Fprint(w, "{"+answer+"}")
			return
		}
		fmt.Fprint(w, scalar(answer))
	})
}

// TestVerdicts: a wrong answer is found and counted, with the query and the first difference in the
// log, whichever side Prometheus's is.
func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		promwarp, inside, upstream string
		query                      string
		counted                    string // verdict, or reason
		log                        string
	}{
		"the same":                  {"1", "1", "1", "rate(a[5m])", same, ""},
		"wrong":                     {"1.0000000000000002", "1", "1", "rate(a[5m])", different, `level=ERROR msg="an answer differs from Prometheus's; please report this" verdict=different difference="value 1.0000000000000002 instead of 1 at 1 of {}" query=rate(a[5m]) start=1999-12-31T23:00:00.000Z end=2000-01-01T00:00:00.000Z step=1m0s`},
		"wrong, no upstream":        {"2", "1", "", "rate(a[5m])", different, "value 2 instead of 1"},
		"the same, no upstream":     {"2", "2", "", "rate(a[5m])", same, ""},
		"other samples":             {"2", "2", "1", "rate(a[5m])", upstream, "level=WARN"},
		"within tolerance":          {"1.0000000000000002", "1", "1", "avg_over_time(a[5m])", same, ""},
		"beyond tolerance":          {"1.000000001", "1", "1", "avg_over_time(a[5m])", different, "level=ERROR"},
		"beyond tolerance, goes on": {"1.000000001", "1", "1", "avg_over_time(a[5m]) - 100", undecided, "may not be wrong"},
		"busy":                      {"busy", "1", "1", "rate(a[5m])", "busy", ""},
		"the upstream fails":        {"1", "1", "broken", "rate(a[5m])", "failed", "not as Prometheus's API does"},
		"a long answer":             {"1", "1", "long", "rate(a[5m])", "failed", "too long"},
		"little memory":             {"1", "1", "1", "rate(a[5m])", "busy", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			pool := memory.New(memory.Options{Limit: 1 << 30})
			if c.counted == "busy" && c.promwarp != "busy" {
				pool.SetLimit(16 << 20)
			}
			promwarp, stop := client.Inside(promwarpOf(c.promwarp, c.inside))
			defer stop()
			o := Options{Promwarp: promwarp, Busy: func() bool { return false }, Memory: pool, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			s := Settings{Fraction: 1, Timeout: time.Minute}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				user, password, _ := r.BasicAuth()
				require.Equal(t, "me secret /base/api/v1/query_range", user+" "+password+" "+r.URL.Path)
				w.Header().Set("Content-Type", "application/json")
				switch c.upstream {
				case "broken":
					fmt.Fprint(w, "hello")
				case "long":
					_, _ = w.Write(make([]byte, LongestAnswer+1))
				default:
					fmt.Fprint(w, scalar(c.upstream))
				}
			}))
			defer server.Close()
			if c.upstream != "" {
				base, err := url.Parse(server.URL + "/base/")
				require.NoError(t, err)
				base.User = url.UserPassword("me", "secret")
				s.Upstream = client.Of(base, http.DefaultTransport)
				s.Upstream.Longest = LongestAnswer
			}
			canary := New(o)
			defer canary.Close()
			canary.Set(s)
			canary.Answered("10.0.0.1:1", asked{text: c.query, end: time.Unix(946684800, 0), executors: "cpu"})
			require.Eventually(t, func() bool { return canary.Pending() == 0 }, 20*time.Second, time.Millisecond)
			of := canary.skipped
			switch c.counted {
			case same, different, upstream, undecided:
				of = canary.compared
			}
			require.Equal(t, 1.0, testutil.ToFloat64(of.WithLabelValues(c.counted)), log.String())
			require.Contains(t, log.String(), c.log)
			require.Equal(t, c.log == "", log.Len() == 0, log.String())
			require.Zero(t, pool.Used())
		})
	}
}

// TestWhen: a query is compared when its newest samples are settled and no request waits; one at a time, in
// its bounds, and not after the end.
func TestWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, hang atomic.Bool
		var at []time.Duration
		start := time.Now()
		promwarp, stop := client.Inside(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("executor") == "auto" {
				at = append(at, time.Since(start).Truncate(time.Second))
			}
			if hang.Load() {
				<-r.Context().Done()
			}
			fmt.Fprint(w, scalar("1"))
		}))
		defer stop()
		c := New(Options{Logger: slog.New(slog.DiscardHandler), Busy: busy.Load, Promwarp: promwarp})
		skipped := func(why string) float64 { return testutil.ToFloat64(c.skipped.WithLabelValues(why)) }
		tell := func(text string, ago time.Duration) {
			c.Answered("10.0.0.1:1", asked{text: text, end: time.Now().Add(-ago), executors: "cpu"})
		}
		tell("a", time.Hour)
		c.Set(Settings{Fraction: 1, Timeout: time.Minute})
		tell("a", 0)
		tell("a offset -5m", 0)
		tell("a", time.Hour) // after those before it
		tell("a", -2*time.Hour)
		c.Answered("10.0.0.1:1", asked{text: "a", executors: "prometheus"})
		c.Answered(client.InsideAddress, asked{text: "a", executors: "cpu"})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []time.Duration{10 * time.Minute, 15 * time.Minute, 15 * time.Minute}, at)
		require.Equal(t, 1.0, skipped("unsettled"))

		busy.Store(true)
		tell("a", time.Hour)
		time.Sleep(time.Minute)
		require.Len(t, at, 3)
		busy.Store(false)
		time.Sleep(time.Second)
		require.Len(t, at, 4)

		hang.Store(true)
		tell("a", time.Hour)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(t, 1.0, skipped("timeout"))
		tell("a", 0)
		synctest.Wait() // it is next
		for range mostWaiting + 1 {
			tell("a", 0)
		}
		require.Equal(t, 1.0, skipped("waiting"))
		tell("a", time.Hour)
		require.Equal(t, 2.0, skipped("waiting"))
		time.Sleep(10*time.Minute + time.Second)
		c.Close()
		require.Zero(t, c.Pending())
	})
}

// TestSeconds: what a query took when a client asked is measured beside what Prometheus's engine says that
// it took; where the upstream does not say that, neither is.
func TestSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		stats string
		count uint64
		sum   float64
	}{
		"says":    {`,"stats":{"timings":{"evalTotalTime":2.5,"execTotalTime":9}}`, 1, 2.5},
		"is mute": {``, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			answering := func(stats string) *client.Client {
				server, stop := client.Inside(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					require.Equal(t, r.FormValue("executor") != "auto", r.FormValue("stats") != "", "with statistics promwarp evaluates in another way")
					fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]`+stats+`}}`)
				}))
				t.Cleanup(stop)
				return server
			}
			reg := prometheus.NewRegistry()
			canary := New(Options{Promwarp: answering(`,"stats":{"timings":{"evalTotalTime":77}}`), Busy: func() bool { return false }, Logger: slog.New(slog.DiscardHandler), Registerer: reg})
			defer canary.Close()
			canary.Set(Settings{Fraction: 1, Timeout: time.Minute, Upstream: answering(c.stats)})
			canary.Answered("10.0.0.1:1", asked{text: "rate(a[5m])", end: time.Unix(946684800, 0), executors: "cpu"})
			require.Eventually(t, func() bool { return canary.Pending() == 0 }, 20*time.Second, time.Millisecond)
			families, err := reg.Gather()
			require.NoError(t, err)
			found := map[string]*dto.Histogram{}
			for _, family := range families {
				for _, m := range family.Metric {
					if family.GetName() == "promwarp_compare_evaluation_seconds" {
						found[m.Label[0].GetValue()] = m.Histogram
					}
				}
			}
			require.Equal(t, c.count, found["prometheus"].GetSampleCount())
			require.InDelta(t, c.sum, found["prometheus"].GetSampleSum(), 0)
			require.Equal(t, c.count, found["promwarp"].GetSampleCount())
			require.Less(t, found["promwarp"].GetSampleSum(), 77.0, "not what it took when it was asked again")
			require.Equal(t, c.count > 0, found["promwarp"].GetSampleSum() >= 0.001)
		})
	}
}
