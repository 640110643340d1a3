package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/promwarp/promwarp/e2e/programs"
	"github.com/promwarp/promwarp/internal/dataset"
)

const (
	// limit is the --memory.limit of the promwarp that is attacked, in bytes.
	limit = 2 << 30
	// slack is how much later than its limit an answer may begin.
	slack = 100 * time.Millisecond
	// smallBar is the time by which 99 of 100 small queries must be answered.
	smallBar = 2500 * time.Millisecond
)

// run is a run of attacks on a promwarp in front of a Prometheus with a day of data until now.
type run struct {
	*programs.Process // promwarp
	prometheus        *programs.Process
	dir               string
	hours             hours
	broken            int // bars
}

// start starts both.
func (r *run) start(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "promwarp-attack-"); err != nil {
		return err
	}
	bin := *prometheusBin
	if bin == "" {
		if bin, err = programs.FromPrometheus("prometheus"); err != nil {
			return err
		}
	}
	r.hours.end = time.Now().Truncate(time.Minute)
	r.hours.start = r.hours.end.Add(-24 * time.Hour)
	data := dataset.Options{Start: r.hours.start.UnixMilli(), End: r.hours.end.UnixMilli(), Series: *series, Seed: 1}
	if r.prometheus, _, err = programs.StartFilled(ctx, bin, r.dir, data); err != nil {
		return err
	}
	r.Process, err = programs.StartReady("promwarp", *promwarpBin, func(addr string) []string {
		all := []string{
			"serve", "--gpu.mode=off", "--upstream.url=" + r.prometheus.URL, "--web.listen-address=" + addr,
			"--memory.limit=" + strconv.Itoa(limit), "--query.timeout=30s",
			"--web.max-connections=2000", "--web.read-timeout=15s", "--web.write-timeout=15s",
		}
		return append(all, strings.Fields(*args)...)
	})
	return err
}

// stop ends both and removes the data.
func (r *run) stop() {
	for _, p := range []*programs.Process{r.Process, r.prometheus} {
		if p != nil {
			p.Kill()
		}
	}
	_ = os.RemoveAll(r.dir)
}

// measured makes one part of the run, with small queries beside it, and prints what came of it.
func (r *run) measured(ctx context.Context, name string, what func(ctx context.Context, w *row)) {
	w, begun := &row{}, time.Now()
	small, err := startProbe(r.URL)
	if err = errors.Join(err, r.ForgetPeak()); err == nil {
		what(ctx, w)
		var t *times
		t, err = small.end()
		w.figures = append(w.figures, "small queries: "+t.String())
		w.bar(t.percentile(0.99) <= patient(smallBar), "small queries: p99 is %s", short(t.percentile(0.99)))
		w.bar(t.failures()*100 <= len(t.Took), "small queries: %d of %d failed", t.failures(), len(t.Took))
	}
	if ctx.Err() != nil {
		return // what was interrupted says nothing
	}
	w.must(err == nil, "small queries: %v", err)
	peak, err := r.Memory("VmHWM")
	w.must(err == nil, "the process is gone: %v", err)
	w.figures = append(w.figures, fmt.Sprintf("memory at most %d MB", peak>>20))
	w.bar(peak <= limit*11/10, "memory is beyond %d MB", limit>>20)
	panics, err := r.Metric("promwarp_http_panics_total")
	w.must(err == nil && panics == 0, "afterwards: %.0f panics, %v", panics, err)
	failure := r.Log.Failure()
	w.must(failure == "", "it printed:\n%s", failure)
	w.print(name, time.Since(begun))
	r.broken += len(w.broken)
}

// tally is what came of the requests of a kind.
type tally struct {
	mu       sync.Mutex
	outcomes map[string]int
	late     int
	latest   time.Duration // behind its limit
	wrong    string        // the first answer that may not be
}

// add adds an answer.
func (t *tally) add(k kind, a answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes[a.outcome()]++
	if over := a.began - k.limit; k.limit > 0 && over > patient(slack) {
		t.late++
		t.latest = max(t.latest, over)
	}
	failed := a.err != nil && !k.cut || a.code >= 500 && a.code != http.StatusServiceUnavailable
	if failed && t.wrong == "" {
		t.wrong = a.String()
	}
}

// flood makes all kinds of attacks at the same time, again and again, and then holds what promwarp has
// in memory against what it had before.
func (r *run) flood(ctx context.Context) error {
	for _, q := range append(large, heavy[1]) {
		newClient(r.URL, "127.0.0.1").query(ctx, r.hours, q)
	}
	before, err := r.state()
	if err != nil {
		return err
	}
	all := kinds()
	r.measured(ctx, fmt.Sprintf("%d kinds of attacks at once for %s", len(all), *lasts), func(ctx context.Context, w *row) {
		for i, t := range r.rounds(ctx, all) {
			if len(t.outcomes) > 0 {
				w.figures = append(w.figures, all[i].name+": "+counted(t.outcomes))
			}
			w.bar(t.late == 0, "%s: %d were late, the last by %s", all[i].name, t.late, short(t.latest))
			w.bar(t.wrong == "", "%s: %s", all[i].name, t.wrong)
		}
	})
	r.recovered(ctx, before)
	return nil
}

// rounds makes rounds of all kinds until time is up.
func (r *run) rounds(ctx context.Context, all []kind) []*tally {
	ctx, cancel := context.WithTimeout(ctx, *lasts)
	defer cancel()
	tallies := make([]*tally, len(all))
	shared := newClient(r.URL, "127.0.0.1")
	together(ctx, len(all), len(all), func(ctx context.Context, i int) {
		t := &tally{outcomes: map[string]int{}}
		tallies[i] = t
		a := &attacker{client: shared, hours: r.hours, note: func(a answer) {
			if ctx.Err() == nil { // what the end cut off says nothing
				t.add(all[i], a)
			}
		}}
		if all[i].apart {
			a.client = newClient(r.URL, fmt.Sprintf("127.0.1.%d", i+1))
		}
		for ctx.Err() == nil {
			together(ctx, all[i].width, all[i].n, func(ctx context.Context, n int) { all[i].ask(ctx, a, n) })
			time.Sleep(100 * time.Millisecond)
		}
	})
	shared.http.CloseIdleConnections()
	return tallies
}

// state is what promwarp has when nothing is asked of it.
type state struct{ memory, retained, goroutines float64 } // retained in caches

func (r *run) state() (s state, err error) {
	anonymous, err := r.Memory("RssAnon")
	s.memory = float64(anonymous)
	for name, value := range map[string]*float64{
		"promwarp_cache_bytes": &s.retained, "promwarp_results_bytes": &s.retained, "go_goroutines": &s.goroutines,
	} {
		v, failed := r.Metric(name)
		*value += v
		err = errors.Join(err, failed)
	}
	return s, err
}

// back says whether it is what it was before and a tenth, beside what caches retain since.
func (s state) back(before state) bool {
	grown := max(s.retained-before.retained, 0)
	return s.memory-grown <= 1.1*before.memory && s.goroutines <= 1.1*before.goroutines+50
}

// recovered waits for at most a minute until memory and goroutines are back.
func (r *run) recovered(ctx context.Context, before state) {
	begun, w := time.Now(), &row{}
	after, err := r.state()
	for *bars && err == nil && !after.back(before) && ctx.Err() == nil && time.Since(begun) < patient(time.Minute) {
		time.Sleep(100 * time.Millisecond)
		after, err = r.state()
	}
	w.bar(err == nil && after.back(before), "it is not back to what it was and a tenth: %v", err)
	w.figures = append(w.figures, fmt.Sprintf("memory %.0f MB before, %.0f after, of which caches have %.0f and %.0f; %.0f and %.0f goroutines",
		before.memory/1e6, after.memory/1e6, before.retained/1e6, after.retained/1e6, before.goroutines, after.goroutines))
	w.print("afterwards", time.Since(begun))
	r.broken += len(w.broken)
}

// large are what dashboards ask.
var large = []asks{
	{`sum by (job) (rate({__name__=~".+_total"}[5m]))`, "5m", ""},
	{`avg by (instance) (avg_over_time({__name__=~"node_.+"}[10m]))`, "5m", ""},
	{`topk(5, sum by (instance) (rate({__name__=~".+_total"}[15m])))`, "5m", ""},
	{`count by (__name__) ({__name__=~".+"})`, "5m", ""},
}
