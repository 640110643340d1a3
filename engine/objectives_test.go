package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
)

const day = 24 * hour

// scrapedSeries is a series with a sample a minute.
type scrapedSeries struct {
	labels labels.Labels
	next   int64 // when the next sample is due, ms
	late   int64 // by how much samples come after their time, ms
	value  float64
	ended  bool
}

// services are a Prometheus that scrapes requests of services once a minute, and records what
// objectives are made of.
type services struct {
	t      *testing.T
	r      *rand.Rand
	db     *teststorage.TestStorage
	now    int64 // ms
	series []*scrapedSeries
	pods   int
	events map[string]int
}

// newServices has the samples of some time up to now.
func newServices(t *testing.T, r *rand.Rand, length, now int64) *services {
	w := &services{t: t, r: r, now: now - length, events: map[string]int{}}
	w.db = teststorage.New(t, func(o *tsdb.Options) { o.OutOfOrderTimeWindow = 0 })
	for service := range 4 {
		for range 3 {
			w.startPod(service)
		}
		name := fmt.Sprint("svc-", service)
		for _, window := range []string{"5m", "1h", "6h", "3d"} {
			w.add(int64(r.IntN(60_000)), 0, "slo:sli_error:ratio_rate"+window, "sloth_id", name, "sloth_window", window)
		}
		w.add(int64(r.IntN(60_000)), 0, "requests:burnrate5m", "service", name)
		w.add(int64(r.IntN(60_000)), 0, "slo:error_budget:ratio", "sloth_id", name)
	}
	for w.now < now {
		w.advance(min(30*minute, now-w.now))
	}
	return w
}

func (w *services) add(due, late int64, name string, ls ...string) {
	all := labels.FromStrings(append([]string{"__name__", name}, ls...)...)
	w.series = append(w.series, &scrapedSeries{labels: all, next: w.now/minute*minute + due, late: late})
}

// startPod begins a pod, whose samples all come at once, and of one in five late, but by less than a
// minute: of samples that are later, and follow a pause, docs/operating.md promises less.
func (w *services) startPod(service int) {
	due, late := int64(w.r.IntN(60_000)), int64(w.r.IntN(5)/4*50_000)
	for _, code := range []string{"200", "404", "503"} {
		w.add(due, late, "requests_total", "service", fmt.Sprint("svc-", service), "code", code, "pod", fmt.Sprint("pod-", w.pods))
	}
	w.pods++
}

// replacePod ends a pod of a service, with a marker or without, and begins another.
func (w *services) replacePod(service int) {
	pod := ""
	for _, s := range w.series {
		if s.labels.Get("service") == fmt.Sprint("svc-", service) && s.labels.Has("pod") && !s.ended && (pod == "" || pod == s.labels.Get("pod")) {
			pod, s.ended = s.labels.Get("pod"), true
			if s.next%2 == 0 {
				app := w.db.AppenderV2(w.t.Context())
				s.next = min(s.next, w.now)
				w.write(app, s, math.Float64frombits(value.StaleNaN))
				require.NoError(w.t, app.Commit())
			}
		}
	}
	w.startPod(service)
	w.events["pods replaced"]++
}

// write appends a sample of the time that is due.
func (w *services) write(app storage.AppenderV2, s *scrapedSeries, v float64) {
	_, err := app.Append(0, s.labels, 0, s.next, v, nil, nil, storage.AppendV2Options{})
	require.NoError(w.t, err)
}

// advance lets d ms pass, in which samples come. Some scrapes are up to 3 ms late, others are missed
// for a while or find a counter that began anew.
func (w *services) advance(d int64) {
	w.now += d
	app := w.db.AppenderV2(w.t.Context())
	for i, s := range w.series {
		for !s.ended && s.next+s.late <= w.now {
			switch w.r.IntN(900) {
			case 0:
				w.events["resets"]++
				s.value = float64(w.r.IntN(3))
			case 1:
				w.events["gaps"]++
				s.next += 2*minute + w.r.Int64N(90)*minute
				continue
			case 2:
				w.events["stale markers"]++
				w.write(app, s, math.Float64frombits(value.StaleNaN))
				s.next += minute + w.r.Int64N(30)*minute
				continue
			}
			switch name := s.labels.Get("__name__"); {
			case name == "requests_total" && s.labels.Get("code") == "503" && w.r.IntN(20) > 0: // it stands still, mostly
			case name == "requests_total":
				s.value += float64(w.r.IntN(500)) * []float64{1, 0.1}[i%2]
			case name == "slo:error_budget:ratio":
				s.value = 0.001
			default:
				s.value = math.Abs(w.r.NormFloat64()) / 500
			}
			w.write(app, s, s.value)
			s.next += minute
			if i%7 == 0 {
				s.next += w.r.Int64N(4) - s.next%10 // so late
			}
		}
	}
	require.NoError(w.t, app.Commit())
}

// objectiveRules are rules of one service as Sloth and Pyrra generate them.
func objectiveRules(service string) (rules []string) {
	ratio := "sum by (service) (rate(requests_total{service='$s',code=~'5..'}[$w])) / sum by (service) (rate(requests_total{service='$s'}[$w]))"
	for _, w := range []string{"5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"} {
		rules = append(rules, strings.ReplaceAll(ratio, "$w", w))
	}
	rules = append(rules,
		"sum_over_time(slo:sli_error:ratio_rate5m{sloth_id='$s'}[30d]) / ignoring (sloth_window) count_over_time(slo:sli_error:ratio_rate5m{sloth_id='$s'}[30d])",
		"slo:sli_error:ratio_rate5m{sloth_id='$s'} / on (sloth_id) group_left () slo:error_budget:ratio{sloth_id='$s'}",
		"(max(slo:sli_error:ratio_rate5m{sloth_id='$s'} > (1.4 * 0.001)) without (sloth_window) and max(slo:sli_error:ratio_rate1h{sloth_id='$s'} > (1.4 * 0.001)) without (sloth_window))"+
			" or (max(slo:sli_error:ratio_rate6h{sloth_id='$s'} > 0.001) without (sloth_window) and max(slo:sli_error:ratio_rate3d{sloth_id='$s'} > 0.001) without (sloth_window))",
		"sum by (service, code) (increase(requests_total{service='$s'}[30d]))",
		"1 - sum(increase(requests_total{service='$s',code=~'5..'}[30d])) / sum(increase(requests_total{service='$s'}[30d]))",
		"requests:burnrate5m{service='$s'} > (1 * (1-0.999))",
		"absent(requests_total{service='$s',code='503'})",
	)
	for i := range rules {
		rules[i] = strings.ReplaceAll(rules[i], "$s", service)
	}
	return rules
}

// monthRules are the functions of long windows that rules use besides.
func monthRules() (rules []string) {
	for _, f := range []string{"rate", "delta", "avg_over_time", "min_over_time", "max_over_time", "last_over_time", "changes", "resets", "quantile_over_time"} {
		for i, arg := range []string{"requests_total{service='svc-3',code!='404'}", "slo:sli_error:ratio_rate5m"} {
			call := f + "(" + arg + []string{"[30d])", "[3d])"}[i]
			if f == "quantile_over_time" {
				call = strings.Replace(call, "(", "(0.99, ", 1)
			}
			rules = append(rules, "max by (service, sloth_id) ("+call+")")
		}
	}
	return rules
}

// inOrder has a storage yield series in the order of their labels, as selections do: sums over
// series have the same bits then.
type inOrder struct{ storage.Queryable }

// Querier implements storage.Queryable.
func (s inOrder) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.Queryable.Querier(mint, maxt)
	return inOrderQuerier{q}, err
}

type inOrderQuerier struct{ storage.Querier }

// Select implements storage.Querier.
func (q inOrderQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	return q.Querier.Select(ctx, true, hints, ms...)
}

// TestObjectives evaluates the rules of objectives minute after minute over windows of up to 30 days,
// as samples come and pods come and go: each answer is Prometheus's to the bit, but for means, which
// are within their bound. PROMWARP_ROUNDS is the number of minutes; a day has 1440.
func TestObjectives(t *testing.T) {
	rounds := fromEnv(t, "PROMWARP_ROUNDS", 7)
	r := rand.New(rand.NewPCG(37, uint64(fromEnv(t, "PROMWARP_SEED", 1))))
	w := newServices(t, r, 31*day, 20_000*hour+7*minute)
	client := clientOf(t, config.RemoteReadConfig{URL: serving(t, readsOf(w.db)), RemoteTimeout: model.Duration(time.Minute)}, remoteread.Options{})
	var clock atomic.Int64
	clock.Store(w.now)
	kept := cache.New(client, cache.Options{HostBytes: 1 << 28, Recheck: cache.DefaultRecheck, MaxAge: cache.DefaultMaxAge, Now: func() time.Time { return time.UnixMilli(clock.Load()) }})
	t.Cleanup(func() { require.NoError(t, kept.Close()) })
	opts := plainOpts()
	stock := promql.NewEngine(opts)
	opts.Reg = prometheus.NewRegistry()
	ours := New(Options{Prometheus: opts, Workers: 2, DecodedBytes: 64 << 20, ResultsBytes: 1 << 20})
	objectives, months := []string{}, monthRules()
	for service := range 4 {
		objectives = append(objectives, objectiveRules(fmt.Sprint("svc-", service))...)
	}
	form := strings.NewReplacer("svc-0", "*", "svc-1", "*", "svc-2", "*", "svc-3", "*")
	answered := map[string]int{} // by the rule without its service
	for round := range rounds {
		if round%20 == 3 {
			w.replacePod(round % 4)
		}
		w.advance(minute)
		clock.Store(w.now)
		rules := objectives
		if round%5 == 1 {
			rules = append(rules[:len(rules):len(rules)], months...)
		}
		for _, rule := range rules {
			ask := question{query: rule, start: w.now}
			var answers [2]string
			for i, e := range []promql.QueryEngine{stock, ours} {
				q, err := ask.on(e, []storage.Queryable{inOrder{w.db}, selection.Storage{Source: kept}}[i])
				require.NoError(t, err)
				res := q.Exec(t.Context())
				if v, ok := res.Value.(promql.Vector); ok && i == 0 && len(v) > 0 {
					answered[form.Replace(rule)]++
				}
				answers[i] = summary(res, rule)
				q.Close()
			}
			if !strings.Contains(rule, "avg_over_time") || !near(answers[0], answers[1], plan.Tolerance, 0) {
				requireSameText(t, answers[0], answers[1], ask)
			}
		}
	}
	t.Logf("%d rounds of %d rules and now and then %d over %d series; %v", rounds, len(objectives), len(months), len(w.series), w.events)
	for _, rule := range append(objectives, months...) {
		if !strings.HasPrefix(rule, "absent") {
			require.NotZero(t, answered[form.Replace(rule)], rule)
		}
	}
	require.Positive(t, w.events["pods replaced"])
	require.Zero(t, testutil.ToFloat64(ours.metrics.queries.WithLabelValues("none")), "left to Prometheus's engine")
}
