package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

// randomStorage holds an hour of counters with resets, gauges with NaN, ±Inf,
// gaps and staleness, series with one sample or none in most windows, and classic
// histograms: sound ones, ones whose counts decrease, whose highest bucket is
// missing or whose le is missing, no number, or written in several ways. Series
// are appended in label order, so that the storage yields them in the order in
// which selections do. Of three series, two have start timestamps, which only a
// storage that keeps them shows.
func randomStorage(t testing.TB, r *rand.Rand, o ...teststorage.Option) storage.Storage {
	st := teststorage.New(t, o...)
	var series []labels.Labels
	for _, name := range []string{"reqs_total", "errs_total", "temp", "odd"} {
		for job := range 3 {
			for inst := range 4 {
				series = append(series, labels.FromStrings("__name__", name, "job", fmt.Sprint("j", job), "instance", fmt.Sprint("i", inst)))
			}
		}
	}
	for job := range 3 {
		for inst := range 4 {
			for version := range 3 {
				series = append(series, labels.FromStrings("__name__", "build_info", "job", fmt.Sprint("j", job), "instance", fmt.Sprint("i", inst), "version", fmt.Sprint("v", version)))
			}
		}
	}
	for _, name := range []string{"lat_bucket", "size_bucket"} {
		for job, les := range [][]string{
			{"0.1", "1", "2.5", "10", "+Inf"},
			{"0.1", "1", "1.0", "1e0", "10", "Inf", "x", "1e999"},
			{"-1", "0.1", "1", "2.5", "10", ""},
			{"-2", "-1", "0", "0.1", "1", "2", "3", "4", "5", "5.0", "5e0", "6", "7", "8", "+Inf"},
		} {
			for _, le := range les {
				series = append(series, labels.FromStrings("__name__", name, "job", fmt.Sprint("j", job), "le", le))
			}
		}
	}
	sort.Slice(series, func(a, b int) bool { return labels.Compare(series[a], series[b]) < 0 })
	app := st.AppenderV2(context.Background())
	add := func(i int, ts int64, v float64) {
		_, err := app.Append(0, series[i], []int64{0, 1, ts - 15_000}[i%3], ts, v, nil, nil, storage.AppendV2Options{})
		require.NoError(t, err)
	}
	v := make([]float64, len(series))
	up := make([]bool, len(series))
	for i := range up {
		up[i] = r.IntN(4) > 0
	}
	stale := func(i int, ts int64) { add(i, ts, math.Float64frombits(value.StaleNaN)) }
	for step := range 60 * 4 {
		for i, l := range series {
			name := l.Get("__name__")
			ts := int64(step)*15_000 + int64(r.IntN(3))*int64(i%2)
			if r.IntN(60) == 0 {
				if up[i] = !up[i]; !up[i] && r.IntN(2) == 0 {
					stale(i, ts)
				}
			}
			if name == "build_info" {
				// One version after the other, mostly.
				was, is := (step-1+i/3*7)/50%3 == i%3, (step+i/3*7)/50%3 == i%3
				if was && !is && i%4 > 0 {
					stale(i, ts)
				}
				if step > 0 && !is {
					continue
				}
				v[i] = 1
				add(i, ts, 1)
				continue
			}
			// The first round has every series, so that label order is also the
			// storage's own.
			if step > 0 && (!up[i] || (name == "odd" && r.IntN(12) != 0)) {
				continue
			}
			switch {
			case strings.HasSuffix(name, "_bucket"):
				v[i] += bucketIncrease(r, l, step)
			case strings.HasSuffix(name, "_total"):
				if v[i] += float64(r.IntN(50)) * []float64{1, 0.1}[i%2]; r.IntN(40) == 0 {
					v[i] = float64(r.IntN(3))
				}
			case r.IntN(50) == 0:
				v[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, -math.MaxFloat64, math.Copysign(0, -1)}[r.IntN(7)]
			default:
				v[i] = r.NormFloat64() * math.Pow(10, float64(r.IntN(6)))
			}
			add(i, ts, v[i])
		}
	}
	require.NoError(t, app.Commit())
	return st
}

// asXOR2 makes a storage keep floats in XOR2 chunks, with start timestamps.
func asXOR2(o *tsdb.Options) { o.FloatChunkEncoding, o.EnableSTStorage = chunkenc.EncXOR2, true }

// requireEncoding checks that st keeps floats in chunks of encoding e.
func requireEncoding(t testing.TB, st storage.Storage, e chunkenc.Encoding) {
	q, err := st.ChunkQuerier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "temp"))
	require.True(t, set.Next())
	it := set.At().Iterator(nil)
	require.True(t, it.Next())
	require.Equal(t, e, it.At().Chunk.Encoding())
}

// bucketIncrease is how many observations a bucket gets at a step. Buckets of job
// j1 get any number, so that their counts decrease; those of the others get the
// more the higher they are, up to bucket 2.5, beyond which there is hardly any.
func bucketIncrease(r *rand.Rand, l labels.Labels, step int) float64 {
	if l.Get("job") == "j1" {
		return float64(r.IntN(20))
	}
	le, _ := strconv.ParseFloat(l.Get("le"), 64)
	n := math.Floor(float64(step*7%5) * (2 + max(-2, min(le, 2.5))))
	if le > 3 {
		n *= 1 - 1e-13*float64(r.IntN(3))
	}
	return n
}

// randomHistograms writes an expression that yields buckets, mostly.
func randomHistograms(r *rand.Rand, sel, window, in string) string {
	switch r.IntN(8) {
	case 0:
		return sel
	case 1, 2:
		return "rate(" + sel + window + ")"
	case 3, 4, 5:
		return "sum by (le" + []string{"", ", job", ", __name__"}[r.IntN(3)] + ") (rate(" + sel + window + "))"
	case 6:
		return "(" + sel + ") * " + []string{"2", "-1", "0"}[r.IntN(3)]
	default:
		return in
	}
}

// randomQuery writes an expression that yields a vector, and says how far from
// Prometheus's its values may be, relative. Functions that are not bit-identical
// stand only under operators that do not make the distance larger.
func randomQuery(r *rand.Rand) (string, float64) {
	if r.IntN(16) == 0 {
		return anyScalar(r, func() string { return identicalQuery(r, r.IntN(3)) }, 2), 0
	}
	if r.IntN(16) == 0 {
		return repeatedQuery(r), 0
	}
	if r.IntN(8) > 0 {
		return identicalQuery(r, r.IntN(4)), 0
	}
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	arg := pick("reqs_total", "errs_total", "temp", "odd", `{job="j1"}`) + pick("[1m]", "[5m]", "[17m]", "[40m]", "[90s]") + pick("", "", " offset 3m", " offset -2m", " @ end()")
	if r.IntN(4) == 0 {
		arg = "(" + identicalQuery(r, 1) + ")" + pick("[10m:1m]", "[40m:]", "[9m:17s]") + pick("", "", " offset 4m", " @ 1500")
	}
	qs := anyWindow(r, plan.Compensated, arg)
	return pick("", "", "min by (job) ", "max ", "abs", "-", "2 * ", "count by (instance) ", "sgn") + "(" + qs + ")", 1e-12
}

// repeatedQuery writes an expression that has an aggregation several times, mostly on the same
// steps.
func repeatedQuery(r *rand.Rand) string {
	aggregation := func() string {
		return oneOf(r, "sum by (job) (", "sum(", "max by (job, instance) (", "count by (job) (", "min by (instance) (", "avg by (job) (") +
			identicalQuery(r, r.IntN(3)) + ")"
	}
	a, b := aggregation(), aggregation()
	return strings.NewReplacer("A", a, "B", b).Replace(oneOf(r, "A / (A + B)", "A or B or A", "max(A) - min(A)", "A unless (A > B)",
		"sum_over_time((A - A)[10m:1m]) or A", "sort(A) + on (job) group_right () A", "(B - B) * 0 + B", "abs(A) + A * scalar(A)"))
}

// anyParam is mostly one of the numbers, else a scalar that varies by step.
func anyParam(r *rand.Rand, numbers ...string) string {
	if r.IntN(4) > 0 {
		return oneOf(r, numbers...)
	}
	varies := oneOf(r, "scalar(count(odd))", "time() / 60", "scalar(sum(build_info))", `scalar(reqs_total{job="j0",instance="i0"})`, "step()", "scalar(minute())",
		`scalar(temp{job="j1",instance="i2"} @ end())`)
	return oneOf(r, varies, varies+" % 3", varies+" % 1", "min_of("+varies+" % 7 / 7, "+oneOf(r, numbers...)+")", "0.01 + "+varies+" % 0.9")
}

// identicalQuery writes an expression whose values are Prometheus's bit by bit.
func identicalQuery(r *rand.Rand, depth int) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	sel := func() string {
		s := pick("reqs_total", "errs_total", "temp", "odd", "build_info", `{__name__=~"reqs_total|errs_total"}`, `{job="j1"}`, `missing`, "lat_bucket")
		if r.IntN(3) == 0 && !strings.Contains(s, "{") {
			s += pick(`{job="j0"}`, `{instance!="i2"}`, `{job=~"j[01]"}`)
		}
		return s
	}
	mod := func() string {
		return pick("", "", "", "", " offset 3m", " offset -2m", " @ 1200", " @ end()", " @ start() offset 1m")
	}
	window := func() string { return pick("[1m]", "[5m]", "[17m]", "[90s]", "[15s]", "[1ms]") }
	if depth <= 0 {
		switch r.IntN(4) {
		case 3:
			return anyExtended(r, sel(), window(), mod())
		case 0:
			return sel() + mod()
		case 1:
			return pick("rate", "increase", "rate") + "(" + sel() + window() + mod() + ")"
		default:
			if r.IntN(16) == 0 {
				// Means of integers are the same however they are added up.
				return `avg_over_time({__name__=~"reqs_total|errs_total", instance=~"i[02]", job=~"j[02]"}` + window() + mod() + ")"
			}
			return anyWindow(r, plan.BitIdentical, sel()+window()+mod())
		}
	}
	in := func() string { return identicalQuery(r, depth-1-r.IntN(2)) }
	by := func() string {
		return pick("", " by (job)", " by (instance, job)", " without (instance)", " without (job)", " by (__name__)", " by (nope)")
	}
	buckets := func() string {
		sel := pick("lat_bucket", "lat_bucket", "size_bucket", `{__name__=~".*_bucket"}`, `lat_bucket{job="j0"}`, `size_bucket{job=~"j[03]"}`)
		return randomHistograms(r, sel, window()+mod(), in())
	}
	switch r.IntN(27) {
	case 22, 23, 24:
		return anyLabels(r, in())
	case 25:
		return anySort(r, in())
	case 18:
		qs := [][]string{{"0.5"}, {"0.5", "0.9"}, {"0", "-0", "1"}, {"0.99", "0.1"}}[r.IntN(4)]
		label := pick(`"q"`, `"q"`, `"q"`, `"job"`, `"le"`, `"__name__"`, `""`)
		return "histogram_quantiles(" + buckets() + ", " + label + ", " + strings.Join(qs, ", ") + pick("", ", -1, 2", ", NaN", ", 0.5") + ")"
	case 19:
		return "histogram_quantile(" + anyParam(r, "0.5", "0.9", "0.99", "0", "1", "1 - 0.7", "-1", "2", "NaN") + ", " + buckets() + ")"
	case 20:
		return "histogram_fraction(" + anyParam(r, "0", "-Inf", "0.3", "NaN", "-1") + ", " + anyParam(r, "0.1", "7", "Inf", "0") + ", " + buckets() + ")"
	case 21:
		if r.IntN(4) == 0 {
			return "timestamp(" + sel() + mod() + ")"
		}
		gone := pick(`odd{job="j1"}`, `odd{job="j1",instance=~"i.*"}`, `nope{job="a",instance!="b",instance="c"}`, sel())
		if r.IntN(2) == 0 {
			return "absent(" + gone + mod() + ")"
		}
		return "absent_over_time(" + gone + pick(window()+mod(), "[10m:1m]") + ")"
	case 12, 13:
		return anyMap(r, in())
	case 0, 1, 2, 3, 4:
		return pick("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar") + by() + "(" + in() + ")"
	case 5:
		return anyBinary(r, in(), in())
	case 15, 17:
		return likelyBinary(r, func() string { return identicalQuery(r, 0) })
	case 16:
		return anyScalarMap(r, in, in())
	case 6:
		return pick("max_over_time", "sum_over_time", "last_over_time", "rate", "count_over_time", "mad_over_time") + "((" + in() + ")" + pick("[10m:1m]", "[7m:]", "[3m:17s]") + pick("", "", " offset 4m", " @ 1500") + ")"
	case 7:
		return pick("abs", "absent", "timestamp", "sort", "-") + "(" + in() + ")"
	case 8, 14:
		return anySelection(r, by)
	case 9:
		return "quantile" + by() + "(" + anyParam(r, "0.7", "0", "1", "0.25", "-1", "NaN") + ", " + in() + ")"
	case 10, 26:
		return "(" + in() + ")" + pick(" or ", " and ", " unless ") + pick("", "", "on (job) ", "on (instance) ", "on () ", "ignoring (version) ", "ignoring (job) ") + "(" + in() + ")"
	default:
		return "(" + in() + ") " + pick("* 2", "> 1", "+ time()", "or vector(1)")
	}
}

// anyWindow applies one of the functions in plan's table that are that exact.
func anyWindow(r *rand.Rand, exact plan.Exactness, arg string) string {
	names := window.Names()
	names = slices.DeleteFunc(names, func(n string) bool { return window.Named(n).Exactness != exact })
	switch f := window.Named(names[r.IntN(len(names))]); f.Param {
	case plan.ParamBefore:
		return fmt.Sprintf("%s(%s, %s)", f.Name, anyParam(r, "0", "0.5", "0.9", "1", "-0.1", "1.5", "NaN"), arg)
	case plan.ParamAfter:
		return fmt.Sprintf("%s(%s, %s)", f.Name, arg, anyParam(r, "0", "3600", "-60"))
	case plan.TwoParamsAfter:
		factor := func() string { return anyParam(r, "0.5", "0.1", "0.9", "0.3", "0.999", "1", "NaN") }
		return fmt.Sprintf("%s(%s, %s, %s)", f.Name, arg, factor(), factor())
	default:
		return f.Name + "(" + arg + ")"
	}
}

// anySelection applies an operator that keeps some of the series, or
// count_values. Its input is such that Prometheus's engine yields it in one
// order always: elsewhere its map order breaks ties.
func anySelection(r *rand.Rand, by func() string) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	in := identicalQuery(r, 0)
	switch r.IntN(4) {
	case 0:
		in = pick("sum", "count", "min", "stddev", "group") + by() + "(" + in + ")"
	case 1:
		in = "-(" + in + ")"
	}
	number := func() string {
		return anyParam(r, "1", "1", "2", "2", "2", "3", "5", "10", "100", "2.9", "0.5", "0", "-1", "-Inf", "-(1)", "(1 + 1)", "9e18", "Inf", "NaN")
	}
	switch r.IntN(7) {
	case 0:
		return "limitk" + by() + "(" + number() + ", " + in + ")"
	case 1:
		if r.IntN(2) == 0 {
			in = anyMap(r, in)
		}
		return "limit_ratio" + by() + "(" + anyParam(r, "0.5", "-0.5", "0.1", "-0.9", "1", "-1", "0", "-0", "1.1", "-2", "NaN") + ", " + in + ")"
	case 2:
		if r.IntN(2) == 0 {
			in = anyMap(r, in)
		}
		return "count_values" + by() + "(" + pick(`"value"`, `"value"`, `"job"`, `"nope"`, `"__name__"`, `"ü 1"`, `""`) + ", " + in + ")"
	}
	return pick("topk", "bottomk") + by() + "(" + number() + ", " + in + ")"
}

// anyMap applies one of the operators or functions of one value.
func anyMap(r *rand.Rand, in string) string {
	num := func() string {
		return []string{"2", "-3", "0.5", "100", "0", "-(1)", "Inf", "NaN", "(1 / 3 - 2 * 5)", "(1 + 0.1)"}[r.IntN(10)]
	}
	names := vector.Names()
	f := vector.Named(names[r.IntN(len(names))])
	switch {
	case f.Name == "neg":
		return "-(" + in + ")"
	case parser.Functions[f.Name] != nil:
		args := []string{in}
		for range f.Args - f.Optional*r.IntN(2) {
			args = append(args, num())
		}
		return f.Name + "(" + strings.Join(args, ", ") + ")"
	}
	op := f.Name
	if f.Compares && r.IntN(2) == 0 {
		op += " bool"
	}
	if r.IntN(3) == 0 {
		return num() + " " + op + " (" + in + ")"
	}
	return "(" + in + ") " + op + " " + num()
}

// TestRandomQueries compares with Prometheus's engine, over XOR and XOR2 chunks:
// see comparison.
// PROMWARP_RANDOM sets the number of queries.
func TestRandomQueries(t *testing.T) {
	n := fromEnv(t, "PROMWARP_RANDOM", 2000) / 2
	for k := range 4 {
		delayed, starts := k&1 > 0, k&2 > 0
		t.Run(fmt.Sprintf("delayed=%v/starts=%v", delayed, starts), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 11+uint64(k)))
			seed := r.Uint64()
			xor := randomStorage(t, rand.New(rand.NewPCG(seed, 0)))
			xor2 := randomStorage(t, rand.New(rand.NewPCG(seed, 0)), asXOR2)
			requireEncoding(t, xor, chunkenc.EncXOR)
			requireEncoding(t, xor2, chunkenc.EncXOR2)
			c := newComparison(delayed, 3, useStarts(starts))
			for range n {
				ask := question{start: int64(r.IntN(3600)) * 1000}
				ask.query, ask.allowed = randomQuery(r)
				ask.end, ask.step = ask.start+int64(r.IntN(1800))*1000, int64(1+r.IntN(90))*1000
				if r.IntN(4) == 0 {
					ask.end, ask.step = ask.start, 0
				}
				require.NoError(t, c.compare(t, []storage.Storage{xor, xor2}[r.IntN(2)], ask))
			}
			require.LessOrEqual(t, c.undecided, n/10_000)
			whole, _ := c.taken()
			t.Logf("%d queries: %v on cpuexec", n, whole)
			require.Greater(t, whole, 0.8*float64(n))
			t.Logf("%d answers have series, %d are errors", c.answered, c.failed)
			require.Greater(t, c.failed, n/50)
			for _, kind := range []string{"window", "subquery window", "map", "aggregate", "binary", "set", "scalar", "histogram", "absent", "labels", "sort"} {
				nodes := testutil.ToFloat64(c.ours.metrics.nodes.WithLabelValues("cpu", kind))
				t.Logf("%v of kind %s on cpuexec", nodes, kind)
				require.Greater(t, nodes, 0.01*float64(n), kind)
			}
		})
	}
}

// anyExtended writes a function of an anchored or smoothed range selector, or such an
// instant selector. One of many is an error.
func anyExtended(r *rand.Rand, sel, window, mod string) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	if r.IntN(2) == 0 { // in either order
		mod = " %s" + mod
	} else {
		mod += " %s"
	}
	modifier, functions := "smoothed", []string{"rate", "increase", "delta", "rate"}
	switch r.IntN(9) {
	case 0:
		return sel + strings.Replace(mod, "%s", "anchored", 1)
	case 1, 2:
		return sel + strings.Replace(mod, "%s", modifier, 1)
	case 3:
		return pick("timestamp", "start_timestamp", "absent") + "(" + sel + strings.Replace(mod, "%s", modifier, 1) + ")"
	case 4, 5, 6:
		modifier, functions = "anchored", append(functions, "changes", "resets", "changes", "resets")
	}
	if r.IntN(60) == 0 {
		functions = []string{"irate", "sum_over_time", "resets", "last_over_time", "absent_over_time"}
	}
	return pick(functions...) + "(" + sel + window + strings.Replace(mod, "%s", modifier, 1) + ")"
}

// anyLabels applies a function of labels, mostly one that leaves series apart.
func anyLabels(r *rand.Rand, in string) string {
	name := func() string {
		return oneOf(r, "job", "instance", "version", "__name__", "le", "nope", "other", "other")
	}
	if r.IntN(3) == 0 {
		args := []string{in, fmt.Sprintf("%q", oneOf(r, "other", "new", "new", "instance", "__name__", "__type__", "")), oneOf(r, `"-"`, `""`, `"ü"`)}
		for range r.IntN(4) {
			args = append(args, fmt.Sprintf("%q", name()))
		}
		return "label_join(" + strings.Join(args, ", ") + ")"
	}
	dest := oneOf(r, "other", "other", "new", "job", "instance", "__name__", "__unit__", "version", "le", "ü 1", "")
	template := oneOf(r, "$1", "$1", "x$1", "${1}x", "$0", "", "const", "$name", "$9")
	pattern := oneOf(r, "(.*)", "(.+)", "j(.)", "i([01])", ".*([0-9])", "", "(?P<name>.).*", "(.*)_total", "x|j1", "(")
	return fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", in, dest, template, name(), pattern)
}

// anySort applies a function that sorts.
func anySort(r *rand.Rand, in string) string {
	name := oneOf(r, "sort", "sort_desc", "sort_by_label", "sort_by_label_desc")
	if strings.Contains(name, "label") {
		in += oneOf(r, "", `, "instance"`, `, "nope", "job"`, `, "__name__", "version"`)
	}
	return name + "(" + in + ")"
}

// binaryOps are the operators between two vectors, but for those on sets.
var binaryOps = []string{
	"+", "-", "*", "/", "%", "^", "atan2",
	"==", "!=", ">", "<", ">=", "<=", "== bool", "!= bool", "> bool", "< bool", ">= bool", "<= bool",
}

func oneOf(r *rand.Rand, s ...string) string { return s[r.IntN(len(s))] }

// anyBinary applies an operator with any matching to two vectors, which mostly
// do not fit.
func anyBinary(r *rand.Rand, lhs, rhs string) string {
	matching := oneOf(r, "", "", "on (job, instance)", "on (instance)", "on (job)", "on ()", "on (__name__, job)",
		"ignoring (job)", "ignoring (version)", "ignoring (job, instance)", "ignoring ()")
	if matching != "" && r.IntN(2) == 0 {
		matching += oneOf(r, " group_left ", " group_right ") + oneOf(r, "()", "()", "(version)", "(nope)")
	}
	return "(" + lhs + ") " + oneOf(r, binaryOps...) + " " + matching + anyFill(r) + " (" + rhs + ")"
}

// anyFill is mostly empty, and else says what to fill in for series without a match.
func anyFill(r *rand.Rand) string {
	return oneOf(r, "", "", "", "", "", " fill (0)", " fill (7)", " fill_left (1)", " fill_right (NaN)", " fill_right (-2) fill_left (3)")
}

// likelyBinary applies an operator to two vectors that are likely to fit.
func likelyBinary(r *rand.Rand, leaf func() string) string {
	names := []string{"reqs_total", "errs_total", "temp", "odd"}
	one := func() string {
		name := oneOf(r, names...)
		return oneOf(r, name, "rate("+name+"[5m])", "abs("+name+")", "-"+name, "max_over_time("+name+"[3m])", name+" > 10", "sum by (job, instance) ("+leaf()+")")
	}
	op := oneOf(r, binaryOps...)
	switch r.IntN(7) {
	case 0:
		by := oneOf(r, "by (job)", "by (instance)", "without (instance)", "by (job, instance)", "")
		agg := func() string { return oneOf(r, "sum", "avg", "max") + " " + by + " (" + leaf() + ")" }
		return agg() + " " + op + anyFill(r) + " " + agg()
	case 1:
		return "(" + one() + ") " + op + oneOf(r, "", " on (job, instance)", " ignoring (version)", " ignoring (version, nope)") + anyFill(r) + " (" + one() + ")"
	case 2:
		return "(" + one() + ") " + op + " on (job, instance) group_left (" + oneOf(r, "version", "version", "", "version, nope") + ")" + anyFill(r) + " build_info"
	case 3:
		return "build_info " + op + " on (job, instance) group_right (" + oneOf(r, "version", "version", "", "__name__") + ")" + anyFill(r) + " (" + one() + ")"
	case 4:
		return "(" + one() + ") " + op + " on (job) group_left () " + anyFill(r) + " " + oneOf(r, "sum", "count", "stdvar") + " by (job) (" + leaf() + ")"
	case 5:
		return "sum by (job) (" + leaf() + ") " + op + " ignoring (instance) group_right (" + oneOf(r, "", "nope") + ")" + anyFill(r) + " (" + one() + ")"
	default:
		return "(" + one() + ") " + op + " ignoring (version) group_left () build_info"
	}
}

// anyScalar writes a scalar; vector writes vectors to take one of.
func anyScalar(r *rand.Rand, vector func() string, depth int) string {
	sub := func() string { return anyScalar(r, vector, depth-1) }
	switch k := r.IntN(9); {
	case k < 2 || depth == 0:
		return oneOf(r, "time()", "time()", "2", "0.5", "-(3)", "pi()", "NaN", "step()", "start()", "range()", "end()")
	case k == 8:
		return oneOf(r, "min_of", "max_of") + "(" + sub() + ", " + sub() + ")"
	case k < 4:
		return "scalar(" + oneOf(r, "sum", "max", "") + "(" + vector() + "))"
	case k < 5:
		return "-(" + sub() + ")"
	default:
		return "(" + sub() + " " + oneOf(r, "+", "-", "*", "/", "%", "^", "atan2", "> bool", "== bool", "<= bool") + " " + sub() + ")"
	}
}

// anyScalarMap applies an operator or function of one vector and scalars that
// may vary by step.
func anyScalarMap(r *rand.Rand, vector func() string, in string) string {
	scalar := func() string { return anyScalar(r, vector, 2) }
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf("clamp(%s, %s, %s)", in, scalar(), scalar())
	case 1:
		return fmt.Sprintf("%s(%s, %s)", oneOf(r, "clamp_min", "clamp_max", "round"), in, scalar())
	case 2:
		return oneOf(r, "vector("+scalar()+")", "minute()", "hour()", "day_of_week()", "days_in_month()", "year()")
	case 3:
		return fmt.Sprintf("(%s) %s %s vector(%s)", in, oneOf(r, "or", "and", "unless", "+", ">"), oneOf(r, "", "on ()"), scalar())
	case 4:
		return scalar() + " " + oneOf(r, binaryOps...) + " (" + in + ")"
	default:
		return "(" + in + ") " + oneOf(r, binaryOps...) + " " + scalar()
	}
}
