//go:build clients

package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

// scrapedTarget is what both replicas scrape: counters, gauges and a histogram, which start anew with it.
type scrapedTarget struct {
	number   int
	restarts []time.Time // it is down for a minute before each
}

// started says since when the target runs; false while it is down.
func (s *scrapedTarget) started(at time.Time, first time.Time) (time.Time, bool) {
	since := first
	for _, r := range s.restarts {
		if at.After(r.Add(-time.Minute)) && at.Before(r) {
			return since, false
		}
		if !at.Before(r) {
			since = r
		}
	}
	return since, true
}

// scrapes writes what one replica scrapes from first to end: with a clock that is ahead, and not while it is down.
func scrapes(t *testing.T, r *rand.Rand, targets []*scrapedTarget, first, end time.Time, ahead time.Duration, down [][2]time.Time) (dir string) {
	t.Helper()
	db, dir := openMatrix(t, matrixStorage{histograms: true})
	defer func() { require.NoError(t, db.Close()) }()
	phases := make([]time.Duration, len(targets))
	ran := make([]bool, len(targets))
	for i := range phases {
		phases[i] = time.Duration(r.Int64N(15_000)) * time.Millisecond
	}
	const interval = 15 * time.Second
	for round := first; round.Before(end); round = round.Add(interval) {
		app := db.AppenderV2(context.Background())
		for i, s := range targets {
			at := round.Add(phases[i] + time.Duration(r.IntN(5))*time.Millisecond)
			isDown := r.IntN(200) == 0 // a scrape that failed, whose marker got lost
			for _, d := range down {
				isDown = isDown || at.After(d[0]) && at.Before(d[1])
			}
			if isDown {
				continue
			}
			since, up := s.started(at, first)
			if !up && !ran[i] {
				continue
			}
			ran[i] = up
			ms := at.Add(ahead).UnixMilli()
			count := math.Floor(at.Sub(since).Seconds() * float64(s.number+1))
			add := func(name string, v float64, h *histogram.Histogram) {
				if !up {
					v = math.Float64frombits(value.StaleNaN)
					if h != nil {
						h = &histogram.Histogram{Sum: v}
					}
				}
				l := labels.FromStrings("__name__", name, "instance", strconv.Itoa(s.number), "job", fmt.Sprint("job", s.number%3))
				_, err := app.Append(0, l, 0, ms, v, h, nil, storage.AppendV2Options{})
				require.NoError(t, err)
			}
			add("work_total", count, nil)
			add("work_seconds_total", count/7, nil)
			add("load", math.Round(100*math.Sin(float64(ms)/1e6+float64(s.number)))/8, nil)
			add("work_seconds", 0, tsdbutil.GenerateTestHistogram(int64(count)))
		}
		require.NoError(t, app.Commit())
	}
	return dir
}

// pair is two Prometheis, or more, that scrape the same. All were restarted and away at times, and have another clock.
type pair struct {
	replicas   []*process
	first, end time.Time
}

func startPair(t *testing.T, r *rand.Rand, n int) *pair {
	t.Helper()
	end, err := envInt("E2E_END", time.Now().Add(-10*time.Minute).Truncate(time.Minute).Unix())
	require.NoError(t, err)
	t.Logf("end %d", end)
	p := &pair{end: time.Unix(end, 0), replicas: make([]*process, n)}
	p.first = p.end.Add(-5 * time.Hour)
	var targets []*scrapedTarget
	for i := range 12 {
		s := &scrapedTarget{number: i}
		for range i % 4 {
			s.restarts = append(s.restarts, p.first.Add(time.Duration(r.Int64N(int64(5*time.Hour)))))
		}
		if len(s.restarts) > 1 && s.restarts[1].Before(s.restarts[0]) {
			s.restarts[0], s.restarts[1] = s.restarts[1], s.restarts[0]
		}
		if len(s.restarts) > 2 {
			s.restarts = s.restarts[:2]
		}
		targets = append(targets, s)
	}
	for i := range p.replicas {
		var down [][2]time.Time
		for range 4 {
			at := p.first.Add(time.Duration(r.Int64N(int64(5 * time.Hour))))
			down = append(down, [2]time.Time{at, at.Add(time.Duration(20+r.IntN(600)) * time.Second)})
		}
		dir := scrapes(t, r, targets, p.first, p.end, time.Duration(i)*2300*time.Millisecond, down)
		config := fmt.Sprintf("global: {external_labels: {cluster: eu, replica: %c}}\n", 'a'+i)
		addr := mustFreeAddr(t)
		p.replicas[i] = runServer(t, "Prometheus", addr, prometheusBin, append(programs.PrometheusArgs(addr, dir, writeConfig(t, config)), experimental)...)
	}
	return p
}

// promwarp starts a promwarp that reads from the pair.
func (p *pair) promwarp(t *testing.T, merge string, more string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "promwarp.yml")
	var urls []string
	for _, up := range p.replicas {
		urls = append(urls, up.URL+"/api/v1/read")
	}
	text := fmt.Sprintf("remote_read:\n- name: pair\n  replicas: {urls: [%s], label: replica, merge: %s}\n%s", strings.Join(urls, ", "), merge, more)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o666))
	addr := mustFreeAddr(t)
	return runServer(t, "promwarp", addr, promwarpBin, "serve", "--config.file="+file, "--web.listen-address="+addr, "--query.exact=bits")
}

// pairQueries are what is asked of a pair; each is asked at several times.
var pairQueries = []string{
	"work_total", "load", "sum by (job) (load)", "count(load)", "timestamp(load)", "load offset 11m", "max_over_time(load[7m])",
	"count_over_time(work_total[5m])", "changes(load[10m])", "last_over_time(load[1m])", "absent(load{instance=\"3\"})",
	"rate(work_total[1m])", "sum by (job) (rate(work_total[5m]))", "increase(work_seconds_total[10m])", "irate(work_total[2m])",
	"resets(work_total[1h])", "delta(load[10m])", "rate(work_total[1m]) / rate(work_seconds_total[1m])", "avg_over_time(load[15m])",
	"max_over_time(rate(work_total[2m])[20m:1m])", "rate(work_total[3m] offset 20m)", "histogram_count(work_seconds)",
	"histogram_quantile(0.9, sum by (job) (rate(work_seconds[5m])))", "histogram_sum(increase(work_seconds[10m]))",
	"topk(3, rate(work_total[5m]))",
}

// TestPairPenalty: a promwarp over a pair answers as a Querier over the sidecars of the pair. E2E_SEED and E2E_END,
// the time of the last scrape in s, repeat a run: where chunks end depends on the time.
func TestPairPenalty(t *testing.T) {
	bin, err := buildThanos()
	require.NoError(t, err)
	seed, err := envInt("E2E_SEED", time.Now().UnixNano())
	require.NoError(t, err)
	asked, err := envInt("E2E_PAIR", 200)
	require.NoError(t, err)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 36))
	p := startPair(t, r, 2+int(seed%3)/2)
	t.Logf("%d replicas", len(p.replicas))
	var sidecars []string
	for _, up := range p.replicas {
		sidecars = append(sidecars, sidecar(t, bin, up.URL))
	}
	root := querier(t, bin, sidecars, "--query.replica-label=replica", "--query.promql-engine=prometheus", experimental)
	pw := p.promwarp(t, "penalty", "  external_labels: keep\n")
	counts := map[string]int{}
	for i := range int(asked) {
		q := pairQueries[i%len(pairQueries)]
		start := p.first.Add(time.Duration(r.Int64N(int64(4 * time.Hour)))).Truncate(time.Second)
		path, form := queryPath, url.Values{"query": {q}, "time": {seconds(start.Add(time.Hour))}}
		if r.IntN(4) > 0 {
			end := start.Add(time.Duration(1+r.IntN(7200)) * time.Second)
			path, form = rangePath, url.Values{"query": {q}, "start": {seconds(start)}, "end": {seconds(end)}, "step": {strconv.Itoa(1 + r.IntN(90))}}
		}
		want, got := parsed(t, ask(t, root.URL, path, form), false), parsed(t, ask(t, pw.URL, path, form), false)
		require.NoError(t, want.Err)
		switch {
		case differs(want, got, 0) == nil:
			counts["bit for bit"]++
		case differs(want, got, 1e-12) == nil:
			counts["the same"]++
		default:
			t.Errorf("%s?%s\n%s: %v", path, form.Encode(), q, differs(want, got, 1e-12))
		}
		if len(want.Series) == 0 {
			counts["empty"]++
		}
	}
	t.Logf("%v", counts)
	require.Less(t, counts["empty"], int(asked)/4)
}

// TestPairFailover: queries go on while one of a pair is killed, and while the other one is.
func TestPairFailover(t *testing.T) {
	p := startPair(t, rand.New(rand.NewPCG(1, 2)), 2)
	pw := p.promwarp(t, "failover", "  fresh: 12h\n") // nothing is answered from what is kept
	end, stop := p.end, make(chan struct{})
	var workers sync.WaitGroup
	var done atomic.Int64
	var mu sync.Mutex
	var failed []string
	for k := range 8 {
		r := rand.New(rand.NewPCG(uint64(k), 9))
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				q := pairQueries[r.IntN(len(pairQueries))]
				form := url.Values{"query": {q}, "start": {seconds(end.Add(-time.Duration(1+r.IntN(120)) * time.Minute))}, "end": {seconds(end)}, "step": {"30"}}
				a, err := post(context.Background(), pw.URL, rangePath, form)
				if err != nil || a.code != 200 {
					mu.Lock()
					failed = append(failed, fmt.Sprintf("%s: %v %d %s", form.Encode(), err, a.code, a.body))
					mu.Unlock()
				}
				done.Add(1)
			}
		})
	}
	more := func() {
		before := done.Load()
		require.Eventually(t, func() bool { return done.Load() > before+100 }, time.Minute, 10*time.Millisecond)
	}
	more()
	p.replicas[0].signal(syscall.SIGKILL)
	more()
	close(stop)
	workers.Wait()
	require.Empty(t, failed)
	t.Logf("%d queries", done.Load())
	require.Contains(t, fetch(t, pw.URL+"/metrics"), `promwarp_replica_selections_total{replica="`+p.replicas[1].URL+`/api/v1/read",upstream="pair"}`)
	p.replicas[1].signal(syscall.SIGKILL)
	require.Eventually(t, func() bool {
		a := ask(t, pw.URL, queryPath, url.Values{"query": {"load"}, "time": {seconds(end)}})
		return a.code == 502 || a.code == 503
	}, time.Minute, 100*time.Millisecond)
}
