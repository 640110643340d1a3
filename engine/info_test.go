package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// infoStorage has an hour of metrics of targets that come and go, and of info metrics of
// them: versions follow one another, with a stale marker in between, without one, or at the
// same time; some targets have none, and some metrics lack one of the identifying labels.
func infoStorage(t testing.TB, r *rand.Rand) *teststorage.TestStorage {
	st := teststorage.New(t)
	app := st.Appender(context.Background())
	add := func(l labels.Labels, ts int64, v float64) {
		_, err := app.Append(0, l, ts, v)
		require.NoError(t, err)
	}
	stale := math.Float64frombits(value.StaleNaN)
	for job := range 3 {
		for inst := range 4 {
			target := []string{"job", fmt.Sprint("j", job), "instance", fmt.Sprint("i", inst)}
			switch {
			case job == 2 && inst == 0:
				target = target[:2]
			case job == 2 && inst == 1:
				target = target[2:]
			}
			with := func(name string, more ...string) labels.Labels {
				return labels.FromStrings(append(append([]string{"__name__", name}, target...), more...)...)
			}
			up, version := true, 0
			for step := range 60 * 4 {
				ts := int64(step)*15_000 + int64(inst)
				if r.IntN(50) == 0 {
					up = !up
				}
				if !up {
					continue
				}
				add(with("reqs_total", "code", "200"), ts, float64(step*step+job))
				add(with("reqs_total", "code", "500"), ts, float64(step+inst))
				add(with("temp"), ts, float64(r.IntN(30)))
				if job == 0 {
					add(with("temp", "version", "own"), ts, float64(r.IntN(30)))
				}
				if (job+inst)%5 == 4 {
					continue // no info
				}
				if r.IntN(80) == 0 {
					if r.IntN(3) > 0 {
						add(with("target_info", "version", fmt.Sprint("v", version), "env", "prod"), ts, stale)
					}
					version++
				} else {
					add(with("target_info", "version", fmt.Sprint("v", version), "env", "prod"), ts, 1)
				}
				if job == 1 {
					add(with("build_info", "env", []string{"prod", "prod", "test", "prod"}[inst], "go", "1.26"), ts, 1)
				}
				if job == 0 && inst == 3 && step > 180 {
					add(with("target_info", "version", "other"), ts, 1) // as new as the other one
				}
			}
		}
	}
	for step := range 60 * 4 {
		ts := int64(step) * 15_000
		add(labels.FromStrings("__name__", "alone"), ts, 1)
		_, err := app.AppendHistogram(0, labels.FromStrings("__name__", "odd_info", "job", "j1", "instance", "i1"), ts, &histogram.Histogram{Count: 1, ZeroCount: 1}, nil)
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	return st
}

// randomInfo writes a query with info.
func randomInfo(r *rand.Rand, depth int) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	sel := func() string {
		return pick("reqs_total", "temp", "temp", "alone", "target_info", `{job="j1"}`, `temp{job=~"j[12]"}`, `{__name__=~"temp|build_info"}`, `reqs_total{instance="i1"}`)
	}
	mod := pick("", "", "", "", " offset 4m", " @ 1800", " @ end()", " offset -1m")
	matchers := pick("", "", "", `, {version=~".+"}`, `, {env="prod"}`, `, {version!="v0"}`, `, {__name__="build_info"}`, `, {__name__=~".+_info"}`,
		`, {__name__!="target_info"}`, `, {__name__=~"(build|target)_info", version=~"v[01]|"}`, `, {missing=""}`, `, {missing!=""}`, `, {env!=""}`, `, {__name__="odd_info"}`, `, {job="j1"}`)
	arg := func() string {
		if depth > 0 && r.IntN(3) == 0 {
			return randomInfo(r, depth-1)
		}
		switch r.IntN(9) {
		case 0, 1:
			return sel() + mod
		case 2, 3:
			return "rate(reqs_total[" + pick("3m", "10m") + "]" + mod + ")"
		case 4:
			return "sum by (job, instance" + pick("", ", code") + ") (" + sel() + mod + ")"
		case 5:
			return "(temp" + mod + ") * on (job, instance) group_left () sum by (job, instance) (reqs_total" + pick("", mod) + ")"
		case 6:
			return pick("max_over_time", "last_over_time") + "(" + sel() + "[5m:1m]" + mod + ")"
		case 7:
			return sel() + mod + " > 5 or " + pick("vector(1)", "temp", "alone")
		}
		return "abs(" + sel() + mod + ") / 2"
	}
	info := "info(" + arg() + matchers + ")"
	switch r.IntN(9) {
	case 0:
		return "sum by (" + pick("version", "env, job", "instance") + ") (" + info + ")"
	case 1:
		return "count(" + info + ") by (version)"
	case 2:
		return info + pick(" * 2", " > 7", " + on (job, instance, version, env, code) "+info, " and temp")
	case 3:
		return "max_over_time(" + info + "[4m:1m]" + pick("", " offset 2m") + ")"
	case 4:
		return `label_replace(` + info + `, "v", "$1", "version", "v(.*)")`
	}
	return info
}

// TestRandomInfo compares random queries with info, of which many must run wholly on an
// executor, for storages and caches.
func TestRandomInfo(t *testing.T) {
	seed := uint64(fromEnv(t, "SEED", 5))
	r := rand.New(rand.NewPCG(seed, 17))
	st := infoStorage(t, r)
	kept, _ := cached(t, st, hour, true)
	for _, delayed := range []bool{false, true} {
		c := newComparison(delayed, 2)
		undecided := 0
		for n := range fromEnv(t, "QUERIES", 500) {
			qs := randomInfo(r, 1)
			ask := question{query: qs, start: 400_000 + int64(r.IntN(1_500_000)), step: []int64{0, 15_000, 60_000}[r.IntN(3)]}
			ask.end = ask.start + int64(r.IntN(1_500_000))
			var from storage.Queryable = st
			if n%2 == 0 {
				from = selection.Storage{Source: kept}
			}
			if err := c.compare(t, from, ask); err != nil {
				undecided++
			}
		}
		whole, none := c.taken()
		nodes := testutil.ToFloat64(c.ours.metrics.nodes.WithLabelValues("cpu", "info"))
		t.Logf("on executors %v, not %v; %v infos; %d answered, %d failed, %d not asked, %d undecided; declined %v", whole, none, nodes, c.answered, c.failed, undecided, c.undecided, declined(c.ours))
		require.Greater(t, whole, 150.0)
		require.Greater(t, nodes, 200.0)
		require.Greater(t, c.answered, 250)
		require.Greater(t, c.failed, 20)
		require.Less(t, c.undecided, 10)
	}
}

// TestInfoOnCPU: which queries with info run on an executor.
func TestInfoOnCPU(t *testing.T) {
	st := promqltest.LoadedStorage(t, `
load 30s
  m_total{job="a",instance="1"}                   0+1x200
  m_total{job="a",instance="2"}                   0+2x200
  g{job="a",instance="2"}                         0+2x200
  h{job="a",instance="2"}                         {{schema:0 count:1 sum:1 buckets:[1]}}x200
  target_info{job="a",instance="1",version="one"} 1x100
  target_info{job="a",instance="2",version="one"} 1x50 _x10 1x200
  other_info{job="a",instance="2",version="two"}  1x200
  hist_info{job="a",instance="2"}                 {{schema:0 count:1 sum:1 buckets:[1]}}x200`)
	for _, c := range []struct {
		query string
		taken bool
	}{
		{`info(m_total)`, true},
		{`info(rate(m_total[5m]), {version=~".+"})`, true},
		{`sum by (version) (info(rate(m_total[5m] offset 10m)))`, false},
		{`info(m_total @ 1800) * 2`, false},
		{`max_over_time(info(m_total)[5m:1m])`, true},
		{`info(info(m_total), {__name__="other_info"})`, true},
		{`info(g, {__name__=~"(other|target)_info"})`, false}, // their versions differ
		{`info(g, {__name__=~".+_info"})`, false},
		{`info(m_total, {__name__="hist_info"})`, false}, // which is an error
		{`info(rate(m_total[5m]) or h)`, false},
		{`info(rate(m_total[5m] offset 1m) or h offset 1m)`, false},
		{`info(m_total offset 1m or vector(1))`, false},
	} {
		for _, delayed := range []bool{false, true} {
			opts := plainOpts()
			opts.EnableDelayedNameRemoval = delayed
			stock, ours := promql.NewEngine(opts), New(Options{Prometheus: withReg(opts), Workers: 2})
			want := summary(ranged(t, stock, t.Context(), st, c.query), c.query)
			require.Equal(t, want, summary(ranged(t, ours, t.Context(), st, c.query), c.query), c.query)
			x, err := explained(ours, t.Context(), st, c.query)
			if err != nil {
				require.False(t, c.taken, c.query)
				continue
			}
			x.Root.Walk(func(d *plan.Decision) { require.Equal(t, c.taken, d.Executor == plan.OnCPU, c.query) })
		}
	}
}

// TestInfoSampleLimit: the limit on samples held at once strikes where Prometheus's does,
// which counts what info read until the query ends.
func TestInfoSampleLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	st := infoStorage(t, r)
	struck, passed := 0, 0
	for _, qs := range []string{
		`info(temp{job="j2"})`, `sum(info(rate(reqs_total{job="j2"}[5m])))`, `info(temp{job="j2"}) + 1`, `sum(info(temp{job="j2"})) + sum(temp)`,
		`max_over_time(info(temp{job="j2"})[5m:1m])`, `sum(max_over_time(info(temp{job="j2"})[5m:1m])) + sum(temp)`, `info(temp{job="j2"}, {env="prod"}) > 3`,
		`-info(temp{job="j2"}) + on (job, instance) temp`, `label_replace(info(temp{job="j2"}), "a", "b", "job", ".*") * 2`, `sum by (job) (sum by (job, version) (info(temp{job="j2"}))) + sum by (job) (temp)`,
		`sum(info(temp{job="j2"}) * 2) + sum(temp)`, `(info(temp{job="j2"}) + on (job, instance, version) info(reqs_total{job="j2", code="200"})) * 3 > 1`, `topk(1, info(temp{job="j2"})) or temp`,
	} {
		for limit := 1; limit < 3000; limit += 1 + r.IntN(80) {
			if strikes(t, st, qs, limit, Options{Workers: 2}) {
				struck++
			} else {
				passed++
			}
		}
	}
	require.Greater(t, struck, 60)
	require.Greater(t, passed, 60)
}

// withReg are the options with a registry of their own.
func withReg(o promql.EngineOpts) promql.EngineOpts {
	o.Reg = plainOpts().Reg
	return o
}

// TestInfoStorageError: the error of info's own selection is passed on as Prometheus's
// engine does.
func TestInfoStorageError(t *testing.T) {
	st := promqltest.LoadedStorage(t, `
load 30s
  m{job="a"} 0+1x200`)
	broken := failing{st, "target_info"}
	for _, qs := range []string{"info(m)", "sum(info(m)) + 1", "target_info + m"} {
		want := ranged(t, promql.NewEngine(plainOpts()), t.Context(), broken, qs)
		require.Error(t, want.Err)
		got := ranged(t, New(Options{Prometheus: plainOpts()}), t.Context(), broken, qs)
		require.Equal(t, want.Err, got.Err, qs)
	}
}

// failing is a storage that fails to select a metric.
type failing struct {
	storage.Queryable
	metric string
}

func (f failing) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := f.Queryable.Querier(mint, maxt)
	return failingQuerier{q, f.metric}, err
}

type failingQuerier struct {
	storage.Querier
	metric string
}

func (q failingQuerier) Select(ctx context.Context, sorted bool, h *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	for _, m := range ms {
		if m.Name == "__name__" && strings.Contains(m.Value, q.metric) {
			return storage.ErrSeriesSet(fmt.Errorf("cannot read %s", q.metric))
		}
	}
	return q.Querier.Select(ctx, sorted, h, ms...)
}
