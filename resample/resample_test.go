package resample

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stored is a storage of one selection, which every selector matches.
type stored struct{ sel *selection.Selection }

func (s stored) Querier(mint, maxt int64) (storage.Querier, error) {
	return storedQuerier{s, mint, maxt}, nil
}

type storedQuerier struct {
	stored
	mint, maxt int64
}

func (q storedQuerier) Select(_ context.Context, _ bool, h *storage.SelectHints, _ ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := selection.Bounds(h, q.mint, q.maxt)
	return q.sel.SeriesSet(mint, maxt, nil)
}

func (q storedQuerier) SelectChunks(context.Context, *storage.SelectHints, ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return q.sel, nil, nil
}

func (storedQuerier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (storedQuerier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (storedQuerier) Close() error { return nil }

// samples are those of a series.
type samples struct {
	labels labels.Labels
	ts     []int64
	vs     []float64
}

// store encodes series, which are in the order of their labels.
func store(t require.TestingT, series []samples) stored {
	s, err := synthetic.Make(synthetic.Options{
		Series: len(series), Distinct: len(series),
		Labels:  func(i int) labels.Labels { return series[i].labels },
		Samples: func(i int) ([]int64, []float64) { return series[i].ts, series[i].vs },
	})
	require.NoError(t, err)
	return stored{s}
}

// form is a request's fields, as name=value pairs.
func form(pairs string) url.Values {
	f, err := url.ParseQuery(pairs)
	if err != nil {
		panic(err)
	}
	return f
}

var now = time.UnixMilli(1_790_000_000_000)

// known is what the tests' requests may be written with.
var known = Known{Parser: parser.NewParser(parser.Options{}), Define: true}

func planned(f url.Values) (*Plan, error) {
	r, err := Parse(f, now, known)
	if err != nil {
		return nil, err
	}
	return NewPlan(r)
}

func Example() {
	series := samples{labels.FromStrings("__name__", "load"), []int64{0, 20_000, 40_000, 70_000}, []float64{1, 3, 2, 8}}
	s, _ := synthetic.Make(synthetic.Options{
		Series: 1, Distinct: 1,
		Labels:  func(int) labels.Labels { return series.labels },
		Samples: func(int) ([]int64, []float64) { return series.ts, series.vs },
	})
	p, _ := planned(form("metric=load&start=0&end=120&every=1m&aggregates=count,mean,rate:sum"))
	r, _ := New(Options{}).Run(context.Background(), stored{s}, p)
	defer r.Release()
	for i, row := range r.Series[0].Rows {
		for k, bucket := range row.Buckets {
			fmt.Println(p.Aggregates[i].Text, p.Grid.Labels[bucket]/1000, row.Values[k])
		}
	}
	// Output:
	// count 0 3
	// count 60 1
	// mean 0 2
	// mean 60 8
	// rate:sum 0 4
	// rate:sum 60 6
}

// TestGroupingEnds: a request that is given up while its series are grouped, by as many labels as one
// may list, ends soon, and leaves nothing for the next one.
func TestGroupingEnds(t *testing.T) {
	const series, names = 50_000, 190
	b := selection.NewBuilder(0)
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m", "a", "x", "b", "x", "c", "x", "d", "x", "e", fmt.Sprintf("%06d", i)))
		require.NoError(t, b.Floats([]int64{0}, []float64{1}))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	without := "a"
	for i := range names {
		without += fmt.Sprint(",l", i)
	}
	r, err := Parse(form("metric=m&start=0&end=1&every=1s&aggregates=max&without="+without), now, withExamples(t))
	require.NoError(t, err)
	p, err := NewPlan(r)
	require.NoError(t, err)
	run := func(ctx context.Context, sel *selection.Selection) (groups int, took time.Duration, err error) {
		began := time.Now()
		result, err := New(Options{}).Run(ctx, stored{sel}, p)
		took = time.Since(began)
		if err == nil {
			groups = len(result.Series)
			result.Release()
		}
		return groups, took, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ended, err := run(ctx, sel)
	require.ErrorContains(t, err, "query was canceled")
	groups, whole, err := run(t.Context(), sel)
	require.NoError(t, err)
	require.Equal(t, series, groups)
	require.Less(t, ended, whole/3)
}

// TestGroupsTakeMemory: the labels of groups are charged to the request that makes them.
func TestGroupsTakeMemory(t *testing.T) {
	b := selection.NewBuilder(0)
	for i := range 1000 {
		b.Series(labels.FromStrings("__name__", "m", "e", fmt.Sprintf("%06d", i)+strings.Repeat("x", 10_000)))
		require.NoError(t, b.Floats([]int64{0}, []float64{1}))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	p, err := planned(form("metric=m&start=0&end=1&every=1s&aggregates=max&by=e"))
	require.NoError(t, err)
	_, err = New(Options{MaxMemory: 5 << 20}).Run(t.Context(), stored{sel}, p)
	require.ErrorAs(t, err, new(*operator.MemoryError))
	result, err := New(Options{MaxMemory: 20 << 20}).Run(t.Context(), stored{sel}, p)
	require.NoError(t, err)
	result.Release()
}

// TestSelectorsTakeMemory: many selectors are charged for before any is read.
func TestSelectorsTakeMemory(t *testing.T) {
	pool := memory.New(memory.Options{Limit: 16 << 20, Wait: time.Millisecond})
	for selectors, refused := range map[int]bool{300: false, 900: true} {
		f := form("start=0&end=1&every=1s&aggregates=max")
		for range selectors {
			f.Add("match[]", "m")
		}
		r, err := Parse(f, now, withExamples(t))
		require.NoError(t, err)
		p, err := NewPlan(r)
		require.NoError(t, err)
		result, err := New(Options{Memory: pool}).Run(t.Context(), stored{selection.Empty()}, p)
		if refused {
			require.ErrorAs(t, err, new(*memory.TooLargeError))
		} else {
			require.NoError(t, err)
			result.Release()
		}
		require.Zero(t, pool.Used())
	}
}

// TestWholeRows: rows that have all buckets share one list of them, from any goroutine, and its
// memory counts once; the rows of a series that has gaps share another.
func TestWholeRows(t *testing.T) {
	at := func(i string, ts ...int64) samples {
		return samples{labels.FromStrings("__name__", "m", "i", i, "job", "a"+i[:1]), ts, make([]float64, len(ts))}
	}
	st := store(t, []samples{at("0", 0, 60_000, 120_000), at("1", 0, 120_000), at("2", 1000, 61_000, 121_000)})
	for more, told := range map[string]int64{"": 2, "&by=job": 2, "&fill=null": 0, "&fill=prev&by=job": 0} {
		pool := memory.New(memory.Options{Limit: 1 << 30})
		p, err := planned(form("metric=m&start=0&end=180&every=1m&aggregates=count,max" + more))
		require.NoError(t, err)
		r, err := New(Options{Memory: pool}).Run(t.Context(), st, p)
		require.NoError(t, err)
		require.Len(t, r.Series, 3)
		whole, gaps := r.Series[0].Rows, r.Series[1].Rows
		require.Equal(t, []int32{0, 1, 2}, whole[0].Buckets)
		require.Same(t, &whole[0].Buckets[0], &r.Series[2].Rows[1].Buckets[0], more)
		require.Same(t, &gaps[0].Buckets[0], &gaps[1].Buckets[0], more)
		require.Equal(t, told == 0, &whole[0].Buckets[0] == &gaps[0].Buckets[0], more)
		unfilled := int64(0)
		if told == 0 { // what has gaps counts before it was filled, too
			unfilled = 2*8*2 + 4*2
		}
		require.Equal(t, p.bytes()+6*rowBytes(0)+8*r.Values()+4*told+unfilled, r.bytes.Load(), more)
		require.NotZero(t, pool.Used())
		r.Release()
		require.Zero(t, pool.Used(), more)
	}
}

// TestDocument: docs/query.md names every field, aggregate, filling and code, and all their aliases.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../docs/query.md")
	require.NoError(t, err)
	text := string(b)
	named := func(name string) { require.Contains(t, text, "`"+name+"`") }
	for _, f := range fields {
		if f.Name == "analyze" {
			continue // which is /explain's
		}
		for _, name := range append([]string{f.Name}, f.Aliases...) {
			named(name)
		}
	}
	for _, d := range aggregate.Definitions {
		if d.Quantile {
			named("NN" + d.Name)
			continue
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			named(name)
			a, err := aggregate.Library{}.Parse(name)
			require.NoError(t, err)
			require.Equal(t, d, a.Definition)
		}
	}
	for name := range fillings {
		named(name)
	}
	for _, code := range Codes {
		named(code)
	}
	most := strconv.Itoa(bucket.MaxBuckets)
	require.Contains(t, text, most[:3]+" "+most[3:])
}

// exactSum is the sum of values times weights without rounding errors, divided by `by`. A weight of 0
// takes a value out, whatever it is.
func exactSum(vs, weights []float64, by float64) float64 {
	sum, odd := new(big.Rat), 0.0
	for i, v := range vs {
		switch {
		case weights[i] == 0:
		case v-v != 0:
			odd += v // infinities and NaN
		default:
			x := new(big.Rat).SetFloat64(v)
			sum.Add(sum, x.Mul(x, new(big.Rat).SetFloat64(weights[i])))
		}
	}
	if odd != 0 {
		return odd
	}
	out, _ := sum.Quo(sum, new(big.Rat).SetFloat64(by)).Float64()
	return out
}

// exactSumOf is the sum, or the mean, of samples.
func exactSumOf(name string, in []sample) float64 {
	vs, weights, by := make([]float64, len(in)), make([]float64, len(in)), 1.0
	for i, s := range in {
		vs[i], weights[i] = s.v, 1
	}
	if name == "mean" {
		by = float64(len(in))
	}
	return exactSum(vs, weights, by)
}

// exactMean is the mean of samples by the time that they hold; if none holds for any, all count alike.
func exactMean(in []sample) float64 {
	vs, weights, all := make([]float64, len(in)), make([]float64, len(in)), 0.0
	for i, s := range in {
		vs[i], weights[i] = s.v, float64(s.next-s.t)
		all += weights[i]
	}
	for i := range in {
		if all == 0 {
			weights[i] = 1
		}
	}
	if all == 0 {
		all = float64(len(in))
	}
	return exactSum(vs, weights, all)
}

// TestFractions compares sums of groups and means by time with exact fractions, of values so large that
// partial sums overflow, and of infinities.
func TestFractions(t *testing.T) {
	kinds := []float64{1.797e308, -1.797e308, 1.7e308, -1.7e308, 9e307, math.Inf(1), math.Inf(-1), 1, 5e-324}
	for seed := range some(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		end := []int64{300, 600}[r.IntN(2)]
		text := fmt.Sprintf("metric=m&every=5m&start=0&end=%d&aggregates=time_weighted_mean,sum,mean", end)
		text += []string{"", "&closed=right"}[r.IntN(2)] + []string{"", "&by=job", "&by="}[r.IntN(3)]
		some := 3 + r.IntN(len(kinds)-2) // of the kinds
		var series []samples
		for i := range 3 + r.IntN(4) { // so that some group has two
			s := samples{labels: labels.FromStrings("__name__", "m", "i", fmt.Sprint(i), "job", fmt.Sprint(i%2))}
			for at := r.Int64N(300) * 1000; at <= end*1000; at += 1000 * (1 + r.Int64N(120)) {
				if r.IntN(4) == 0 {
					at = (at + 299_999) / 300_000 * 300_000 // on an edge
				}
				s.ts, s.vs = append(s.ts, at), append(s.vs, kinds[r.IntN(some)])
			}
			series = append(series, s)
		}
		p, err := planned(form(text))
		require.NoError(t, err, text)
		got, err := New(Options{Workers: 2}).Run(t.Context(), store(t, series), p)
		require.NoError(t, err, text)
		want := plain(p, series)
		for name, all := range rows(got) {
			for a, row := range all {
				if p.Aggregates[a].Name != "time_weighted_mean" && p.Grouping == nil {
					continue // Prometheus's own, which overflow
				}
				for i, x := range row {
					about := fmt.Sprintf("seed %d: %s\n%s of %s, bucket %d: %v is not %v", seed, text, p.Aggregates[a].Text, name, x.bucket, x.v, want[name][a][i].v)
					requireNear(t, want[name][a][i].v, x.v, about)
				}
			}
		}
		got.Release()
	}
}

// TestClosedRight: what aggregates are told of a window (a, b] are a and b.
func TestClosedRight(t *testing.T) {
	define := `&define={"name":"edges","state":{"n":"0"},"add":{"n":"n+1"},"merge":{"n":"a.n+b.n"},"result":"start*1e6+end"}`
	series := samples{labels.FromStrings("__name__", "m"), []int64{1000, 60_000, 90_000, 120_000}, []float64{1, 2, 4, 8}}
	for closed, want := range map[string][][]float64{
		"left":  {{0 + 60_000, 60_000e6 + 120_000, 120_000e6 + 180_000}, {1, 3, 8}},
		"right": {{0 + 60_000, 60_000e6 + 120_000}, {1, 4}}, // the samples on edges hold for no time
	} {
		p, err := planned(form("metric=m&start=0&end=150&every=1m&aggregates=edges,time_weighted_mean&closed=" + closed + strings.ReplaceAll(define, "+", "%2B")))
		require.NoError(t, err)
		got, err := New(Options{Workers: 1}).Run(t.Context(), store(t, []samples{series}), p)
		require.NoError(t, err)
		for a, values := range want {
			require.Equal(t, values, got.Series[0].Rows[a].Values, "%s, closed=%s", p.Aggregates[a].Text, closed)
		}
		x := p.Explain()
		require.Equal(t, []int64{0, 180_000}, []int64{x.First, x.Last}, "closed=%s", closed)
		got.Release()
	}
	only := samples{labels.FromStrings("__name__", "m"), []int64{60_000}, []float64{math.Inf(1)}}
	p, err := planned(form("metric=m&start=0&end=60&every=1m&aggregates=time_weighted_mean&closed=right"))
	require.NoError(t, err)
	got, err := New(Options{Workers: 1}).Run(t.Context(), store(t, []samples{only}), p)
	require.NoError(t, err)
	defer got.Release()
	require.Equal(t, only.vs, got.Series[0].Rows[0].Values, "one sample, at the end of its window")
}

// requireNear requires a value within rounding errors of the largest numbers.
func requireNear(t *testing.T, want, got float64, about string) {
	if want-want != 0 || got-got != 0 {
		edge := math.Abs(want)*(1+1e-9) > math.MaxFloat64 && want*got > 0 // a sum next to the largest number
		require.True(t, edge || want == got || math.IsNaN(want) && math.IsNaN(got), about)
		return
	}
	require.LessOrEqual(t, math.Abs(want/4-got/4), 1e-12*math.MaxFloat64, about)
}

// functions are the aggregates that PromQL has, too, and how far their values may be apart.
var functions = map[string]struct {
	query  string
	within float64
}{
	"count": {"count_over_time(m[%s])", 0}, "sum": {"sum_over_time(m[%s])", 0}, "mean": {"avg_over_time(m[%s])", 0},
	"min": {"min_over_time(m[%s])", 0}, "max": {"max_over_time(m[%s])", 0}, "last": {"last_over_time(m[%s])", 0},
	"first": {"first_over_time(m[%s])", 0}, "median": {"quantile_over_time(0.5, m[%s])", 0}, "95pct": {"quantile_over_time(0.95, m[%s])", 0},
	// Prometheus's own variance of large numbers that are close to each other has errors of this size.
	"std": {"stddev_over_time(m[%s])", 1e-5}, "var": {"stdvar_over_time(m[%s])", 1e-5},
}

// TestPromQL compares with Prometheus's engine: buckets closed on the right, and labelled there,
// are a range query's windows.
func TestPromQL(t *testing.T) {
	e := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e8, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{EnableExperimentalFunctions: true})})
	defer func() { require.NoError(t, e.Close()) }()
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		every, period := 60*(1+r.Int64N(5)), 20*(1+r.Int64N(30))
		start := 1_700_000_000/every*every + every*r.Int64N(1000)
		end := start + every*(5+r.Int64N(30))
		zeros := randomSeries(r, start*1000, end*1000, true)
		for i := range zeros[0].vs {
			zeros[0].vs[i] = []float64{0, math.Copysign(0, -1), 1}[r.IntN(3)]
		}
		huge, ordinary := store(t, zeros), store(t, randomSeries(r, start*1000, end*1000, false))
		for name, f := range functions {
			st := huge
			if f.within > 0 { // the squares of the largest numbers are no numbers
				st = ordinary
			}
			p, err := planned(form(fmt.Sprintf("metric=m&start=%d&end=%d&every=%ds&period=%ds&closed=right&label=right&aggregates=%s", start, end, every, period, name)))
			require.NoError(t, err)
			got, err := New(Options{Workers: 2}).Run(t.Context(), st, p)
			require.NoError(t, err)
			q, err := e.NewRangeQuery(t.Context(), st, nil, fmt.Sprintf(f.query, fmt.Sprintf("%ds", period)), time.Unix(start+every, 0), time.Unix(end, 0), time.Duration(every)*time.Second)
			require.NoError(t, err)
			res := q.Exec(t.Context())
			m, err := res.Matrix()
			require.NoError(t, err)
			require.Equal(t, len(m), len(got.Series), "seed %d: %s", seed, name)
			byInstance := map[string]Row{}
			for _, s := range got.Series {
				byInstance[s.Labels.Get("i")] = s.Rows[0]
			}
			for _, s := range m {
				row := byInstance[s.Metric.Get("i")]
				require.Equal(t, len(s.Floats), len(row.Values), "seed %d: %s", seed, name)
				for k, want := range s.Floats {
					require.Equal(t, want.T, p.Grid.Labels[row.Buckets[k]])
					require.True(t, f.within > 0 || want.F != 0 || math.Signbit(want.F) == math.Signbit(row.Values[k]), "seed %d: the other zero for %s of %s", seed, name, s.Metric)
					require.True(t, alike(want.F, row.Values[k], f.within), "seed %d: %s of %s at %d: %v is not %v", seed, name, s.Metric, want.T, row.Values[k], want.F)
				}
			}
			q.Close()
			got.Release()
		}
	}
}

var benchSeries = flag.Int("resample.series", 1000, "series of 10 000 samples in BenchmarkRun")

const (
	benchSamples = 10_000
	oneAggregate = "sum"
	eight        = "count,sum,mean,min,max,std,first,last"
)

// BenchmarkRun resamples series of 10 000 samples to five minutes. ns/sample is time of a core:
// that of the process, over all its cores, per sample.
func BenchmarkRun(b *testing.B) {
	sel, err := synthetic.Counters("m", *benchSeries, benchSamples)
	require.NoError(b, err)
	samples := float64(sel.NumSamples())
	examples := withExamples(b)
	examples.Aggregates, err = custom.AddTo(examples.Aggregates, []custom.Source{{
		Name: "total", State: map[string]string{"sum": "0"}, Add: map[string]string{"sum": "sum + v"}, Merge: map[string]string{"sum": "a.sum + b.sum"}, Result: "sum",
	}})
	require.NoError(b, err)
	measure := func(b *testing.B, f func()) {
		f() // what is made once is made
		began := cpuTime(b)
		for b.Loop() {
			f()
		}
		b.ReportMetric((cpuTime(b)-began)/float64(b.N)/samples, "cpu-ns/sample")
		b.ReportMetric(samples*float64(b.N)/b.Elapsed().Seconds()/1e6, "Msamples/s")
	}
	b.Run("decode alone", func(b *testing.B) {
		var buf decode.Buffer
		measure(b, func() { decodeAll(b, sel, &buf) })
	})
	for _, c := range []struct{ name, aggregates, more string }{
		{"one", oneAggregate, ""}, {"eight", eight, ""}, {"eight, median and 95pct", eight + ",median,95pct", ""},
		{"one by job", oneAggregate, "&by=job"}, {"eight by job", eight, "&by=job"}, {"median by job", "median", "&by=job"},
		{"std", "std", ""}, {"custom sum", "total", ""}, {"custom rms", "rms", ""}, {"custom ema", "ema", ""}, {"custom longest_above", "longest_above", ""},
		{"std by job", "std", "&by=job"}, {"custom rms by job", "rms", "&by=job"}, {"custom ema by job", "ema", "&by=job"},
		{"eight of differences", "rate:count,rate:sum,rate:mean,rate:min,rate:max,rate:std,rate:first,rate:last", ""},
		{"eight, mean of series", eight, "&by=job&reaggregate=mean"},
	} {
		for _, workers := range []int{1, 0} {
			name := c.name
			if workers == 0 {
				name += ", all cores"
			}
			b.Run(name, func(b *testing.B) {
				r, err := Parse(form(fmt.Sprintf("metric=m&start=%d&end=%d&every=5m&aggregates=%s%s", synthetic.Start/1000, (synthetic.Start+benchSamples*synthetic.Interval)/1000, c.aggregates, c.more)), now, examples)
				require.NoError(b, err)
				p, err := NewPlan(r)
				require.NoError(b, err)
				e := New(Options{Workers: workers})
				measure(b, func() {
					r, err := e.Run(b.Context(), stored{sel}, p)
					require.NoError(b, err)
					r.Release()
				})
			})
		}
	}
}

func decodeAll(b *testing.B, sel *selection.Selection, buf *decode.Buffer) {
	for i := range sel.NumSeries() {
		buf.Reset()
		err := buf.Read(sel, i, sel.Chunks(i), true, new(decode.Stats))
		require.NoError(b, err)
	}
}

// cpuTime is the time in ns that the process has had cores.
func cpuTime(b *testing.B) float64 {
	var u unix.Timespec
	require.NoError(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &u))
	return float64(u.Nano())
}
