package engine

import (
	"context"
	"hash/crc32"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread/reduce"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// readers are Prometheus's engine over remote reads of one storage: of all samples, and of what
// is left of them.
type readers struct {
	engine  *promql.Engine
	raw     storage.Queryable
	reduced map[string]storage.Queryable // by path
	reg     *prometheus.Registry
	// undecided counts questions to which readers of all samples give answers that are not even
	// alike, as for topk among ties.
	undecided int
}

// newReaders returns readers of st, which has external labels. Those of own they take off what they
// read. They have newer samples than localStart, in ms, themselves; 0 says none.
func newReaders(t *testing.T, st storage.ChunkQueryable, external, own labels.Labels, localStart int64, options ...func(*promql.EngineOpts)) *readers {
	opts := plainOpts()
	opts.Reg, opts.NoStepSubqueryIntervalFn = nil, func(int64) int64 { return 30_000 }
	for _, set := range options {
		set(&opts)
	}
	r := &readers{engine: promql.NewEngine(opts), reg: prometheus.NewRegistry()}
	ours := New(Options{Prometheus: opts, Workers: 2, DecodedBytes: 1 << 26})
	plain := serve.New(serve.Options{Queryable: st, ExternalLabels: func() labels.Labels { return external }})
	reducer := reduce.New(reduce.Options{Lookback: 5 * time.Minute, Engine: ours, Columns: ours.Columns(), Registerer: r.reg})
	types := []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}
	r.raw = readFrom(t, plain, types, own, localStart)
	r.reduced = map[string]storage.Queryable{
		"thin":      readFrom(t, plain.Reducing(reducer.Thin), types, own, localStart),
		"aggregate": readFrom(t, plain.Reducing(reducer.Aggregate), types, own, localStart),
	}
	if localStart == 0 { // of samples, readers do not drop those that they have newer ones for
		r.reduced["thin as samples"] = readFrom(t, plain.Reducing(reducer.Thin), nil, own, 0)
		r.reduced["aggregate as samples"] = readFrom(t, plain.Reducing(reducer.Aggregate), nil, own, 0)
	}
	return r
}

// readFrom returns what a Prometheus of release 3.15 reads from a door.
func readFrom(t *testing.T, door *serve.Handler, types []prompb.ReadRequest_ResponseType, own labels.Labels, localStart int64) storage.Queryable {
	client, err := remote.NewReadClient("reader", &remote.ClientConfig{
		URL: serving(t, door), Timeout: model.Duration(time.Minute), ChunkedReadLimit: 1 << 24, AcceptedResponseTypes: types,
		Headers: map[string]string{"User-Agent": "Prometheus/3.15.0"},
	})
	require.NoError(t, err)
	return remote.NewSampleAndChunkQueryableClient(client, own, nil, localStart == 0, func() (int64, error) { return localStart, nil })
}

// requireSame asks the readers of some paths. Of answers that Prometheus's map order decides, it
// may be another one of those that readers of all samples give.
func (r *readers) requireSame(t *testing.T, ask question, paths ...string) (answered bool) {
	t.Helper()
	all, err := r.ask(ask, r.raw)
	if err != nil {
		return false // it is none that can be asked
	}
	want := summary(all, ask.query)
	for _, path := range paths {
		left, err := r.ask(ask, r.reduced[path])
		require.NoError(t, err)
		got := summary(left, ask.query)
		differs := false
		for again := 0; want != got; again++ {
			other, err := r.ask(ask, r.raw)
			require.NoError(t, err)
			o := summary(other, ask.query)
			if o == got || o != want && alike(got, want, ask) {
				break
			}
			differs = differs || !alike(o, want, ask)
			if again < 40 || !differs && again < 1000 { // of a map's orders few may yield these last bits
				continue
			}
			if !differs {
				require.Equal(t, want, got, "%s of %s", ask, path)
			}
			r.undecided++
			break
		}
	}
	m, _ := all.Value.(promql.Matrix)
	v, _ := all.Value.(promql.Vector)
	return len(m)+len(v) > 0
}

func (r *readers) ask(ask question, st storage.Queryable) (*promql.Result, error) {
	q, err := ask.on(r.engine, st)
	if err != nil {
		return nil, err
	}
	return q.Exec(context.Background()), nil
}

// sent is how many queries were reduced by path.
func (r *readers) sent(path, sent string) (n float64) {
	families, _ := r.reg.Gather()
	for _, f := range families {
		for _, m := range f.Metric {
			if m.Label[0].GetValue() == path && m.Label[2].GetValue() == sent {
				n += m.Counter.GetValue()
			}
		}
	}
	return n
}

// promised reports whether docs/readers.md says that readers may ask it: extended ranges are
// none of it, nor are selectors in a subquery that are offset by anything but multiples of its
// step, nor those with @ in a subquery with @ in another.
func promised(query string) bool {
	expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
	if err != nil {
		return false
	}
	ok := true
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		v, is := n.(*parser.VectorSelector)
		if !is {
			return nil
		}
		step := time.Duration(1)
		nested := false
		for _, above := range path {
			if s, is := above.(*parser.SubqueryExpr); is {
				ok = ok && !(nested && v.Timestamp != nil && s.Timestamp != nil)
				nested = true
				if step = s.Step; step == 0 {
					step = 30 * time.Second
				}
			}
		}
		ok = ok && !v.Anchored && !v.Smoothed && v.OriginalOffset%step == 0
		return nil
	})
	return ok
}

// drawn makes up a question. Its grid is aligned, mostly.
func drawn(r *rand.Rand) question {
	ask := question{start: int64(r.IntN(3600)) * 1000}
	if r.IntN(4) == 0 {
		ask.start += int64(r.IntN(1000))
		ask.end = ask.start
	} else {
		ask.step = []int64{1000, 5000, 7000, 15_000, 30_000, 60_000, 60_000, 120_000, 300_000, 600_000}[r.IntN(10)]
		if r.IntN(8) > 0 {
			ask.start -= ask.start % ask.step
		}
		ask.end = ask.start + int64(r.IntN(2400))*1000
	}
	for ask.query == "" || !promised(ask.query) {
		switch r.IntN(3) {
		case 0:
			ask.query, _ = randomQuery(r)
		default:
			ask.query = simpleQuery(r)
		}
	}
	return ask
}

// simpleQuery writes what paths are made for.
func simpleQuery(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	sel := pick("reqs_total", "temp", "odd", "build_info", "lat_bucket", `{__name__=~"reqs_total|errs_total"}`, `{job="j1"}`)
	mod := pick("", "", "", " offset 5m", " offset 10m", " offset -5m", " @ end()", " @ 1200")
	query := sel + mod
	if r.IntN(3) == 0 {
		query = pick("max_over_time", "min_over_time", "last_over_time", "first_over_time", "present_over_time", "absent_over_time", "rate", "sum_over_time", "delta", "mad_over_time", "ts_of_max_over_time",
			"rate", "increase", "irate", "idelta", "changes", "resets", "avg_over_time") +
			"(" + sel + pick("[1m]", "[90s]", "[5m]", "[10m]", "[10m15s]", "[17m]", "[40m]") + mod + ")"
	}
	for range 1 + r.IntN(2) {
		if r.IntN(3) == 0 {
			query = pick("timestamp", "-", "abs", "", "absent", "max_over_time", "sum_over_time") + "(" + query + ")"
			if strings.Contains(query, "over_time((") || strings.HasPrefix(query, "sum_over_time(") || strings.HasPrefix(query, "max_over_time(") && r.IntN(2) == 0 {
				query = strings.TrimSuffix(query, ")") + pick("[10m:1m]", "[20m:30s]", "[40m:]", "[1h:5m]") + pick("", " offset 1m", " @ 3000") + ")"
			}
			continue
		}
		query = pick("sum", "min", "max", "count", "avg", "group", "sum", "stddev", "topk") + pick("", " by (job)", " by (job, __name__)", " by (instance)", " without (instance)", " without (job, __name__)", " without ()") + " (" + query + ")"
		query = strings.ReplaceAll(strings.ReplaceAll(query, "topk (", "topk (2, "), "topk by (job) (", "topk by (job) (2, ")
	}
	if r.IntN(4) == 0 {
		query = "(" + query + ")" + pick(" / ", " - ", " or ") + "on (job) group_left () (" + pick("sum by (job) ("+sel+")", "count by (job) ("+sel+")", "max by (job) (rate(reqs_total[5m]))") + ")"
	}
	return query
}

// TestReducedReads: a reader of what is left of samples answers as a reader of all of them.
// PROMWARP_RANDOM sets the number of queries of each kind of reader, which are others for each.
func TestReducedReads(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 250)
	for name, c := range map[string]struct {
		external   labels.Labels
		own        labels.Labels
		localStart int64
		cached     bool // read through a cache, and from retained columns
		settled    bool // all that is cached is
		uneven     bool // series are unlike each other
		delayed    bool // names are removed late
	}{
		"from columns":                        {cached: true, settled: true},
		"from columns and chunks behind them": {cached: true},
		"no external labels":                  {},
		"external labels":                     {external: labels.FromStrings("cluster", "eu", "a", "1")},
		"readers with external labels":        {external: labels.FromStrings("cluster", "eu", "a", "1"), own: labels.FromStrings("cluster", "eu")},
		"readers that have newer samples":     {localStart: 2_000_000},
		"readers with all of most queries":    {localStart: 600_000},
		"uneven":                              {uneven: true},
		"uneven, names are removed late":      {uneven: true, cached: true, delayed: true},
		"uneven, external labels":             {uneven: true, external: labels.FromStrings("cluster", "eu")},
		"uneven, those that readers have":     {uneven: true, external: labels.FromStrings("cluster", "eu"), own: labels.FromStrings("cluster", "eu")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(crc32.ChecksumIEEE([]byte(name))), uint64(fromEnv(t, "PROMWARP_SEED", 5))))
			data := rand.New(rand.NewPCG(r.Uint64(), 0))
			var st storage.ChunkQueryable
			if c.uneven {
				st = unevenStorage(t, data)
			} else {
				st = randomStorage(t, data)
			}
			if c.cached {
				kept, _ := cached(t, st, hour, c.settled)
				st = selection.Storage{Source: kept}
			}
			rs := newReaders(t, st, c.external, c.own, c.localStart, func(o *promql.EngineOpts) { o.EnableDelayedNameRemoval = c.delayed })
			paths := slices.Sorted(maps.Keys(rs.reduced))
			answered := 0
			for range n {
				if rs.requireSame(t, drawn(r), paths[r.IntN(len(paths))]) {
					answered++
				}
			}
			t.Logf("%d of %d with series; thin: %v thinned, %v not; aggregate: %v aggregated, %v thinned, %v not", answered, n,
				rs.sent("thin", "thinned"), rs.sent("thin", "all"), rs.sent("aggregate", "aggregated"), rs.sent("aggregate", "thinned"), rs.sent("aggregate", "all"))
			require.LessOrEqual(t, rs.undecided, n/200)
			require.Greater(t, answered, n/8)
			require.Greater(t, rs.sent("thin", "thinned"), float64(n)/20)
			require.Greater(t, rs.sent("aggregate", "thinned"), float64(n)/20)
			require.Positive(t, rs.sent("aggregate", "aggregated"))
		})
	}
}

// exchanged is a storage of chunks that can be exchanged for another.
type exchanged struct{ *blocks }

func (e *exchanged) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := e.Querier(mint, maxt)
	return exchangedQuerier{storage.NoopChunkedQuerier(), q.(blocksQuerier)}, err
}

type exchangedQuerier struct {
	storage.ChunkQuerier
	of blocksQuerier
}

func (q exchangedQuerier) SelectChunks(ctx context.Context, hints *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return q.of.SelectChunks(ctx, hints, ms...)
}

// TestReducedMixins asks readers the expressions that TestMixins evaluates.
func TestReducedMixins(t *testing.T) {
	st := &exchanged{}
	rs := newReaders(t, st, labels.EmptyLabels(), labels.EmptyLabels(), 0)
	const each = 5
	asked, answered := 0, 0
	for _, queries := range mixins(t) {
		for i := 0; i < len(queries); i += each {
			query := queries[i]
			expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
			require.NoError(t, err, query)
			st.blocks = dataFor(t, expr)
			for _, ask := range []question{
				{query: query, start: 3_600_000, end: 7_200_000, step: 60_000},
				{query: query, start: 3_600_000, end: 7_200_000, step: 600_000},
				{query: query, start: 7_100_007, end: 7_100_007},
			} {
				asked++
				if rs.requireSame(t, ask, "thin", "aggregate") {
					answered++
				}
			}
		}
	}
	t.Logf("%d of %d with series; thin: %v thinned, %v not; aggregate: %v aggregated, %v thinned, %v not", answered, asked,
		rs.sent("thin", "thinned"), rs.sent("thin", "all"), rs.sent("aggregate", "aggregated"), rs.sent("aggregate", "thinned"), rs.sent("aggregate", "all"))
	require.GreaterOrEqual(t, asked, 200)
	require.Greater(t, answered, asked/2)
	require.Greater(t, rs.sent("aggregate", "aggregated"), float64(asked)/10)
}

// TestReducedNative asks readers for native histograms, and for floats beside them.
func TestReducedNative(t *testing.T) {
	rs := newReaders(t, nativeDB(t, 3, hour), labels.EmptyLabels(), labels.EmptyLabels(), 0)
	r := rand.New(rand.NewPCG(uint64(fromEnv(t, "SEED", 78)), 5))
	answered := 0
	for range fromEnv(t, "QUERIES", 300) {
		ask := question{query: randomNative(r, 2), start: 600_000 + int64(r.IntN(15))*60_000, step: []int64{0, 15_000, 60_000, 600_000}[r.IntN(4)]}
		ask.end = ask.start
		if ask.step > 0 {
			ask.start -= ask.start % ask.step
			ask.end += int64(r.IntN(2_000_000))
		}
		if rs.requireSame(t, ask, "thin", "aggregate") {
			answered++
		}
	}
	require.Greater(t, answered, 150)
	require.Greater(t, rs.sent("thin", "thinned"), 100.0)
	require.Greater(t, rs.sent("aggregate", "aggregated"), 10.0)
}

// TestReducedBeyondPromise: what docs/readers.md asks of readers is not asked for nothing.
func TestReducedBeyondPromise(t *testing.T) {
	rs := newReaders(t, randomStorage(t, rand.New(rand.NewPCG(1, 0))), labels.EmptyLabels(), labels.EmptyLabels(), 0)
	for name, ask := range map[string]question{
		"an offset that is no multiple of the subquery's step":   {query: "max_over_time(sum(reqs_total offset 7s)[20m:1m])", start: 2_407_000},
		"another lookback, by as much as some steps":             {query: "sum(odd)", start: 1_200_000, end: 2_400_000, step: 60_000, lookback: 10 * time.Minute},
		"another lookback, as much shorter as the query is long": {query: "sum(odd)", start: 1_200_000, end: 1_380_000, step: 120_000, lookback: 2 * time.Minute},
		"smoothed": {query: "reqs_total smoothed", start: 1_200_000, end: 2_400_000, step: 60_000},
		"anchored": {query: "increase(reqs_total[1m] anchored)", start: 1_200_000, end: 2_400_000, step: 300_000},
	} {
		if ask.end == 0 {
			ask.end = ask.start
		}
		require.Equal(t, ask.lookback != 0, promised(ask.query), name)
		all, err := rs.ask(ask, rs.raw)
		require.NoError(t, err)
		left, err := rs.ask(ask, rs.reduced["aggregate"])
		require.NoError(t, err)
		require.NotEqual(t, summary(all, ask.query), summary(left, ask.query), name)
	}
}

// unevenStorage has the series of blocksSeries, each scraped at times of its own, some of them
// more than once, under several values of an external label and without it. There are gaps longer
// than the lookback, runs of equal values, resets, stale markers, values that are no numbers, and,
// among floats, native histograms with resets.
func unevenStorage(t testing.TB, r *rand.Rand) storage.Storage {
	st := teststorage.New(t)
	app := st.Appender(t.Context())
	for _, l := range blocksSeries() {
		for _, cluster := range []string{"", "eu", "us"}[:1+r.IntN(3)] {
			b := labels.NewBuilder(l)
			b.Set("cluster", cluster)
			for _, s := range unevenSamples(r, l.Get("__name__")) {
				var err error
				if s.h != nil {
					_, err = app.AppendHistogram(0, b.Labels(), s.t, s.h, nil)
				} else {
					_, err = app.Append(0, b.Labels(), s.t, s.v)
				}
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, app.Commit())
	return st
}

// unevenSample is a float, or a native histogram.
type unevenSample struct {
	t int64
	v float64
	h *histogram.Histogram
}

// unevenSamples makes the samples of a series. Those of several series have times in common now
// and then.
func unevenSamples(r *rand.Rand, name string) (out []unevenSample) {
	every := []int64{5, 7, 13, 15, 15, 55, 300}[r.IntN(7)] * 1000
	jitter := []int64{1, 1, 3, 4000}[r.IntN(4)]
	histograms := r.IntN(60) == 0
	mixed := r.IntN(40) == 0
	v, n := 0.0, int64(0)
	for t := r.Int64N(every); t <= blocksLength; t += every {
		at := t - t%1000 + r.Int64N(jitter)
		if len(out) > 0 && at <= out[len(out)-1].t {
			continue
		}
		switch k := r.IntN(200); {
		case k == 0:
			t += minute * (1 + r.Int64N(20))
		case k == 1, k == 2:
			out = append(out, unevenSample{t: at, v: math.Float64frombits(value.StaleNaN)})
			t += every * r.Int64N(6)
			continue
		case k < 6:
			v, n = float64(r.IntN(3)), 0
		case mixed && k < 14:
			histograms = !histograms
		}
		if histograms {
			n += r.Int64N(3)
			out = append(out, unevenSample{t: at, h: tsdbutil.GenerateTestHistogram(n)})
			continue
		}
		switch k := r.IntN(4); {
		case k == 0: // as before
		case name == "target_info":
			v = 1
		case name == "temp" && r.IntN(20) == 0:
			v = []float64{math.NaN(), math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64}[r.IntN(7)]
		case name == "temp" || name == "once":
			v = []float64{r.NormFloat64(), float64(r.IntN(4)), math.Copysign(0, -1)}[r.IntN(3)]
		default:
			v += float64(r.IntN(50)) * []float64{1, 0.1}[k%2]
		}
		out = append(out, unevenSample{t: at, v: v})
	}
	return out
}
