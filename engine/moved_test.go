package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/selection"
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
				Cores: placement.Costs{Sample: 1e6}, Device: placement.Costs{Sample: 0.1}, Link: 10e9,
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
			data := &recorded{from: selection.Storage{Source: w.cache}}
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
	return answer, ok && ours.plan.Node != nil
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

const (
	minute     = int64(60_000)
	hour       = 60 * minute
	movedStart = 1000 * hour
)

// moving is a Prometheus that is scraped into, late at times, and whose past
// changes, behind remote read and a cache.
type moving struct {
	t     *testing.T
	r     *rand.Rand
	db    *teststorage.TestStorage
	up    *remoteread.Client
	cache *cache.Cache
	limit int64 // bytes of the cache
	// starts says that some samples have start timestamps.
	starts bool
	path   string
	clock  atomic.Int64 // now in ms

	now    int64
	series []labels.Labels
	last   []int64 // time of each series' last sample in ms
	value  []float64
}

func newMoving(t *testing.T, r *rand.Rand) *moving {
	w := &moving{t: t, r: r, now: movedStart}
	w.db = teststorage.New(t, func(o *tsdb.Options) {
		o.OutOfOrderTimeWindow = 1000 * hour
		if r.IntN(2) == 0 {
			o.FloatChunkEncoding, o.EnableSTStorage = chunkenc.EncXOR2, true
			w.starts = r.IntN(3) > 0
		}
	})
	for job := range 3 {
		at := []string{"job", fmt.Sprint("j", job)}
		for inst := range 4 {
			at := append(at[:2:2], "instance", fmt.Sprint("i", inst))
			for _, name := range []string{"reqs_total", "errs_total", "temp", "odd"} {
				w.add(append([]string{"__name__", name}, at...)...)
			}
		}
		for _, le := range [][]string{{"0.1", "1", "2.5", "+Inf"}, {"0.1", "1", "1.0", "1e0", "+Inf"}, {"1", "10", "x", "+Inf"}}[job] {
			w.add(append([]string{"__name__", "lat_bucket", "le", le}, at...)...)
		}
	}
	w.up = clientOf(t, config.RemoteReadConfig{URL: serving(t, readsOf(w.db)), RemoteTimeout: model.Duration(time.Minute)}, remoteread.Options{})
	w.limit, w.path = []int64{1 << 28, 1 << 28, 400_000}[r.IntN(3)], t.TempDir()
	w.open(r.IntN(2) == 0)
	t.Cleanup(func() { require.NoError(t, w.cache.Close()) })
	return w
}

// open opens the cache, with files or without.
func (w *moving) open(files bool) {
	o := cache.Options{
		HostBytes: w.limit, Tile: 20 * time.Minute, MaxAge: []time.Duration{0, 24 * time.Hour, 40 * time.Minute}[w.r.IntN(3)],
		Retention: []time.Duration{0, 0, 3 * time.Hour}[w.r.IntN(3)],
		Now:       func() time.Time { return time.UnixMilli(w.clock.Load()) },
	}
	if files {
		var err error
		o.Disk, err = disk.Open(disk.Options{Path: w.path, Limit: 1 << 30})
		require.NoError(w.t, err)
	}
	w.cache = cache.New(w.up, o)
}

// add begins a series.
func (w *moving) add(ls ...string) {
	w.series, w.value = append(w.series, labels.FromStrings(ls...)), append(w.value, 0)
	w.last = append(w.last, w.now+w.r.Int64N(2))
}

// advance lets d ms pass.
func (w *moving) advance(d int64) {
	app := w.db.AppenderV2(w.t.Context())
	w.now += d
	for i, l := range w.series {
		for w.last[i]+15_000 <= w.now {
			w.last[i] += 15_000
			name := l.Get("__name__")
			switch {
			case w.r.IntN(100) == 0:
				w.last[i] += w.r.Int64N(hour) // it is gone for a while
				if w.r.IntN(2) == 0 {
					w.write(app, i, w.last[i], math.Float64frombits(value.StaleNaN))
				}
				continue
			case name == "odd" && w.r.IntN(12) > 0:
				continue
			case strings.HasSuffix(name, "_total"):
				if w.value[i] += float64(w.r.IntN(50)) * []float64{1, 0.1}[i%2]; w.r.IntN(60) == 0 {
					w.value[i] = 0
				}
			case strings.HasSuffix(name, "_bucket"):
				w.value[i] += float64(w.r.IntN(20))
			case w.r.IntN(50) == 0:
				w.value[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, math.Copysign(0, -1)}[w.r.IntN(6)]
			default:
				w.value[i] = w.r.NormFloat64() * math.Pow(10, float64(w.r.IntN(6)))
			}
			w.write(app, i, w.last[i], w.value[i])
		}
	}
	for range w.r.IntN(20) { // late
		i := w.r.IntN(len(w.series))
		w.write(app, i, w.now-w.r.Int64N(10*minute), w.value[i]+1)
	}
	require.NoError(w.t, app.Commit())
	w.clock.Store(w.now)
}

func (w *moving) write(app storage.AppenderV2, i int, ts int64, v float64) {
	start := int64(0)
	switch {
	case !w.starts || value.IsStaleNaN(v):
	case i%4 == 1: // of a counter that begins anew every half an hour
		start = ts - ts%(30*minute)
	case i%4 == 2 && w.r.IntN(20) > 0: // of deltas, most of the time
		start = ts - 15_000
	}
	if ts <= w.now {
		_, _ = app.Append(0, w.series[i], start, ts, v, nil, nil, storage.AppendV2Options{}) // may be there already, with another value
	}
}

// happen makes something happen that remembered results must not survive, or that
// they may.
func (w *moving) happen() {
	mint := movedStart + w.r.Int64N(w.now-movedStart)
	maxt := mint + w.r.Int64N(2*hour)
	match := [][]*labels.Matcher{
		{labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*_total")},
		{labels.MustNewMatcher(labels.MatchEqual, "job", "j1")},
		{labels.MustNewMatcher(labels.MatchEqual, "__name__", "temp")},
	}[w.r.IntN(3)]
	drop := func() {
		_, err := w.cache.Drop(mint, maxt, match)
		require.NoError(w.t, err)
	}
	switch w.r.IntN(12) {
	case 0: // deleted, and noticed at once or later
		require.NoError(w.t, w.db.Compact(w.t.Context()))
		if to := min(maxt, w.db.Head().MinTime()-1); mint <= to {
			require.NoError(w.t, w.db.Delete(w.t.Context(), mint, to, match...))
		}
		require.NoError(w.t, w.db.CleanTombstones())
		if w.r.IntN(2) == 0 {
			drop()
		}
	case 1: // backfilled
		app := w.db.AppenderV2(w.t.Context())
		for range 50 {
			i := w.r.IntN(len(w.series))
			w.write(app, i, min(mint+w.r.Int64N(2*hour), w.now), w.value[i]+2)
		}
		require.NoError(w.t, app.Commit())
		if w.r.IntN(2) == 0 {
			drop()
		}
	case 2:
		drop()
	case 3: // a series that sorts before others, or among them
		w.add("__name__", []string{"reqs_total", "temp", "a_total"}[w.r.IntN(3)], "job", []string{"j0", "j1", "a"}[w.r.IntN(3)], "instance", fmt.Sprint("h", len(w.series)))
	case 4:
		require.NoError(w.t, w.cache.Close())
		w.open(w.r.IntN(2) == 0)
	case 5:
		w.cache.Clear()
	}
}

// recorded hands out what a storage does and notes it, so that others can be asked
// for the very same later, whatever the storage has then.
type recorded struct {
	from storage.Queryable

	mu      sync.Mutex
	opened  []storage.Querier
	answers []answer
}

// answer is what a selector was answered.
type answer struct {
	matchers   string
	start, end int64 // ms
	sel        *selection.Selection
	ws         annotations.Annotations
	err        error
}

// Querier implements storage.Queryable.
func (s *recorded) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.from.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, q)
	return &recordedQuerier{Querier: q, s: s, mint: mint, maxt: maxt}, nil
}

// close ends the use of all that was handed out.
func (s *recorded) close() {
	for _, q := range s.opened {
		_ = q.Close()
	}
}

type recordedQuerier struct {
	storage.Querier
	s          *recorded
	mint, maxt int64
}

// Close implements storage.Querier. What was handed out is still to be read.
func (q *recordedQuerier) Close() error { return nil }

// SelectChunks implements selection.Querier.
func (q *recordedQuerier) SelectChunks(ctx context.Context, hints *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	start, end := selection.Bounds(hints, q.mint, q.maxt)
	name := fmt.Sprint(ms)
	q.s.mu.Lock()
	i := slices.IndexFunc(q.s.answers, func(a answer) bool {
		// Prometheus's engine may ask for 1 ms more at the start.
		return a.matchers == name && a.end == end && a.start >= start && a.start <= start+1
	})
	if i >= 0 {
		a := q.s.answers[i]
		q.s.mu.Unlock()
		return a.sel, a.ws, a.err
	}
	q.s.mu.Unlock()
	sel, ws, err := q.Querier.(selection.Querier).SelectChunks(ctx, hints, ms...)
	q.s.mu.Lock()
	defer q.s.mu.Unlock()
	q.s.answers = append(q.s.answers, answer{name, start, end, sel, ws, err})
	return sel, ws, err
}

// Select implements storage.Querier.
func (q *recordedQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := selection.Bounds(hints, q.mint, q.maxt)
	return selection.LazySeriesSet(mint, maxt, func() (*selection.Selection, annotations.Annotations, error) {
		return q.SelectChunks(ctx, hints, ms...)
	})
}
