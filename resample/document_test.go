package resample

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// TestDocument: docs/query.md names every field, aggregate, filling and code, and all their aliases.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("../docs/query.md")
	require.NoError(t, err)
	text := string(b)
	named := func(name string) { require.Contains(t, text, "`"+name+"`") }
	for _, f := range fields {
		if f.name == "analyze" {
			continue // which is /explain's
		}
		for _, name := range append([]string{f.name}, f.aliases...) {
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
