package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
)

// panel is a query that is asked again and again.
type panel struct {
	query        string
	length, step int64 // ms
	back         int64 // by how much it ends in the past, ms
}

// ask is the question at the present time.
func (p *panel) ask(now int64) question {
	end := (now - p.back) / p.step * p.step // as Grafana aligns it
	return question{query: p.query, start: end - p.length/p.step*p.step, end: end, step: p.step}
}

// remembering writes a query whose results may be remembered, mostly.
func remembering(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	leaf := func() string {
		arg := pick("reqs_total", "errs_total", "temp", "odd", `{__name__=~"reqs_total|errs_total"}`, `{job="j1"}`, `reqs_total{job=~"j[01]"}`)
		mod := pick("", "", "", " offset 7m", " offset -1m")
		in := anyWindow(r, plan.Exactness(r.IntN(8)/7), arg+pick("[1m]", "[5m]", "[17m]", "[90s]")+mod)
		switch r.IntN(6) {
		case 0:
			in = arg + mod
		case 1:
			in = anyMap(r, in)
		case 2, 3:
			in = "rate(" + pick("reqs_total", "errs_total") + "[5m])"
		case 4:
			in = anyExtended(r, arg, pick("[1m]", "[5m]", "[17m]"), mod)
		}
		by := pick("", " by (job)", " by (instance)", " without (job)", " without (instance)")
		switch op := pick("sum", "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile", "topk", "bottomk"); op {
		case "quantile":
			return op + by + "(" + pick("0.9", "0.5", "0") + ", " + in + ")"
		case "topk", "bottomk":
			return op + by + "(" + pick("1", "2", "5") + ", " + in + ")"
		default:
			return op + by + "(" + in + ")"
		}
	}
	switch r.IntN(12) {
	case 0:
		return "histogram_quantile(0.9, sum by (le" + pick("", ", job") + ") (rate(lat_bucket" + pick("", `{job="j0"}`) + "[5m])))"
	case 1:
		return anyBinary(r, leaf(), leaf())
	case 2:
		return "(" + leaf() + ")" + pick(" or ", " and ", " unless ") + pick("", "on (job) ") + "(" + leaf() + ")"
	case 3:
		return pick("max_over_time", "rate", "sum_over_time") + "((" + leaf() + ")" + pick("[10m:1m]", "[7m:30s]") + ")"
	case 4:
		return pick("sum(", "topk(2, ", "absent(", "2 * scalar(", "sort(", "-(") + leaf() + ")"
	case 5:
		return anyLabels(r, leaf())
	case 6:
		return identicalQuery(r, 2)
	}
	return leaf()
}

// TestMovedQueries asks the same queries again and again while time goes on and the
// past changes, with results remembered and without, over the very same samples:
// the answers must be the same to the bit, and those of Prometheus's engine.
// PROMWARP_MODEL is the number of runs, and each makes 60 steps.
func TestMovedQueries(t *testing.T) {
	runs := fromEnv(t, "PROMWARP_MODEL", 3)
	seed := uint64(fromEnv(t, "PROMWARP_SEED", 1))
	var kept, evaluated float64
	var mu sync.Mutex
	t.Run("runs", func(t *testing.T) {
		for n := range uint64(runs) {
			t.Run(fmt.Sprintf("seed %d", seed+n), func(t *testing.T) {
				t.Parallel()
				k, e := movedQueries(t, seed+n)
				mu.Lock()
				defer mu.Unlock()
				kept, evaluated = kept+k, evaluated+e
			})
		}
	})
	t.Logf("%v steps remembered, %v evaluated", kept, evaluated)
	require.Greater(t, kept, evaluated/2)
}

func movedQueries(t *testing.T, seed uint64) (kept, evaluated float64) {
	r := rand.New(rand.NewPCG(17, seed))
	opts := promql.EngineOpts{
		MaxSamples: []int{50_000_000, 50_000_000, 30_000, 3000}[r.IntN(4)], Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 30_000 }, Parser: parser.NewParser(promqltest.TestParserOpts),
		UseStartTimestamps: r.IntN(2) == 0,
	}
	c := &comparison{stock: promql.NewEngine(opts)}
	opts.Reg = prometheus.NewRegistry()
	c.ours = New(Options{Prometheus: opts, Workers: 2})
	opts.Reg = prometheus.NewRegistry()
	reg := opts.Reg.(*prometheus.Registry)
	remembers := New(Options{Prometheus: opts, Workers: 2, DecodedBytes: 1 << 20, ResultsBytes: []int64{64 << 20, 300_000}[r.IntN(2)]})
	onGPUs := seed%3 == 0
	if onGPUs {
		gpus, metrics := testGPUs(t, func(o *placement.Options) {
			o.Constants = &placement.Constants{ // of cores that are never worth it
				Cores: placement.Costs{Sample: 1e6, Window: 1e6, Slow: 1}, Device: placement.Costs{Sample: 0.1, Window: 0.1, Slow: 1}, Link: 10e9,
			}
		})
		remembers.opts.GPUs = gpus
		defer func() { require.Positive(t, metric(t, metrics, "promwarp_gpu_jobs_total")) }()
	}

	w := newMoving(t, r)
	w.advance(4 * hour)
	var panels []*panel
	for range 60 {
		w.advance(r.Int64N(6 * minute))
		w.happen()
		for len(panels) < 8 || r.IntN(4) == 0 {
			panels = append(panels, &panel{
				query: remembering(r), length: minute + r.Int64N(3*hour),
				step: []int64{15_000, 60_000, 60_000, 37_000, 300_000}[r.IntN(5)], back: []int64{0, 0, 0, hour}[r.IntN(4)],
			})
		}
		if len(panels) > 8 {
			panels = panels[len(panels)-8:]
		}
		for _, p := range panels {
			switch r.IntN(12) {
			case 0:
				p.length = minute + r.Int64N(3*hour) // zoomed
			case 1:
				p.back = r.Int64N(2 * hour)
			case 2:
				continue
			}
			ask := p.ask(w.now)
			data := &recorded{from: w.cache}
			got, whole := answerOf(t, remembers, data, ask)
			want, _ := answerOf(t, c.ours, data, ask)
			// Where a GPU evaluates functions that are not exact, bits are its own, and where
			// Prometheus's engine evaluates something, which remembers nothing, they are chance's.
			if whole && (!onGPUs || !inexact(t, ask.query)) {
				requireSameText(t, want, got, ask)
			}
			if _, err := ask.on(c.stock, data); err == nil && r.IntN(2) == 0 && !inexact(t, ask.query) && opts.MaxSamples > 1e6 {
				if stock, _ := answerOf(t, c.stock, data, ask); stock != got && !c.unsure(t, data, ask, stock, got) {
					requireSameText(t, stock, got, ask)
				}
			}
			data.close()
		}
		require.LessOrEqual(t, remembers.results.Bytes(), remembers.opts.ResultsBytes)
	}
	return metric(t, reg, "promwarp_results_kept_steps_total"), metric(t, reg, "promwarp_results_evaluated_steps_total")
}

// answerOf is the answer to a question, and whether all of it was evaluated by executors.
func answerOf(t *testing.T, e promql.QueryEngine, data *recorded, ask question) (answer string, whole bool) {
	q, err := e.NewRangeQuery(context.Background(), data, nil, ask.query, time.UnixMilli(ask.start), time.UnixMilli(ask.end), time.Duration(ask.step)*time.Millisecond)
	if err != nil {
		return err.Error(), false
	}
	defer q.Close()
	answer = summary(q.Exec(context.Background()), ask.query)
	ours, ok := q.(*query)
	return answer, ok && (ours.whole != nil)
}

// requireSameText fails at the first field in which two summaries differ.
func requireSameText(t *testing.T, want, got string, ask question) {
	t.Helper()
	if want == got {
		return
	}
	if strings.HasPrefix(want, "error") != strings.HasPrefix(got, "error") {
		t.Fatalf("%.200s\nbut got\n%.200s\nfor %s", want, got, ask)
	}
	ws, gs := strings.Fields(want), strings.Fields(got)
	for i := range min(len(ws), len(gs)) {
		require.Equal(t, ws[i], gs[i], "field %d of %s", i, ask)
	}
	t.Fatalf("%d fields, not %d: %s", len(gs), len(ws), ask)
}
