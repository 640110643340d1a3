package engine

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// oddLength is how long the series of oddStorage are, in ms.
const oddLength = 30 * minute

// oddSeries lists the series of oddStorage in label order.
func oddSeries() (out []labels.Labels) {
	add := func(kv ...string) { out = append(out, labels.FromStrings(kv...).WithoutEmpty()) }
	for _, name := range []string{"c_total", "g", "big", "mix", "nh", "nhcb", "gh", "sparse", "late", "gone", "lat"} {
		for job := range 2 {
			for inst := range 2 {
				add("__name__", name, "job", fmt.Sprint("j", job), "instance", fmt.Sprint("i", inst))
			}
		}
	}
	for _, v := range []string{"foo", "Foo", "FOO", "fOo", "bar", "a\nb", "k", "\u212a", "", "ü,\"\\"} { // one is the Kelvin sign
		add("__name__", "g", "case", v)
		add("__name__", "http.latency", "case", v, "ü.x", "1")
	}
	for job := range 2 {
		for _, le := range []string{"0.1", "1", "1.0", "5", "+Inf"} {
			add("__name__", "lat_bucket", "job", fmt.Sprint("j", job), "instance", "i0", "le", le)
		}
		add("__name__", "target_info", "job", fmt.Sprint("j", job), "instance", "i0", "version", fmt.Sprint("v", job), "__type__", "info", "__unit__", []string{"", "s"}[job])
	}
	add("__name__", "target_info", "job", "j0", "instance", "i0", "version", "v9")
	add("job", "j0", "instance", "i0") // no name
	sort.Slice(out, func(a, b int) bool { return labels.Compare(out[a], out[b]) < 0 })
	return out
}

// oddStorage has half an hour of samples from base (ms) on, at times that have nothing in
// common: floats at the limits of what a float can be, floats and histograms that take turns,
// histograms of exponential and custom buckets whose layouts change.
func oddStorage(t testing.TB, r *rand.Rand, base int64) *teststorage.TestStorage {
	st := teststorage.New(t)
	for _, l := range oddSeries() {
		app := st.Appender(t.Context())
		name := l.Get("__name__")
		every := []int64{1000, 7919, 15_000, 15_000, 15_000, 30_000, 60_000, 61_001}[r.IntN(8)]
		from, until := int64(0), int64(oddLength)
		switch name {
		case "late":
			from = oddLength/2 + r.Int64N(minute)
		case "gone":
			until = oddLength/2 + r.Int64N(minute)
		case "sparse":
			every = []int64{minute * 3, minute * 6, minute * 11}[r.IntN(3)]
		}
		from += r.Int64N(every)
		v, up, asHistogram := 0.0, true, false
		h := oddHistogram(r, name)
		for ts := base + from; ts < base+until; ts += every {
			at := ts
			if r.IntN(4) == 0 {
				at += r.Int64N(min(every, 900))
			}
			if r.IntN(30) == 0 {
				if up = !up; !up && r.IntN(2) == 0 {
					_, err := app.Append(0, l, at, math.Float64frombits(value.StaleNaN))
					require.NoError(t, err)
				}
			}
			if !up {
				continue
			}
			if r.IntN(25) == 0 {
				asHistogram = !asHistogram
			}
			if name == "nh" || name == "nhcb" || name == "gh" || (name == "mix" || name == "lat") && asHistogram {
				if r.IntN(40) == 0 {
					h = oddHistogram(r, name)
				}
				growHistogram(r, h, name == "gh")
				_, err := app.AppendHistogram(0, l, at, nil, h.Copy())
				require.NoError(t, err, "%v", h)
				continue
			}
			switch {
			case name == "big":
				v = oddFloats[r.IntN(len(oddFloats))]
			case strings.HasSuffix(name, "_total"), strings.HasSuffix(name, "_bucket"):
				if v += float64(r.IntN(9)) * 0.1; r.IntN(25) == 0 {
					v = 0
				}
			case name == "target_info":
				v = 1
			case r.IntN(20) == 0:
				v = oddFloats[r.IntN(len(oddFloats))]
			default:
				v = float64(r.IntN(7)) - 3
			}
			_, err := app.Append(0, l, at, v)
			require.NoError(t, err)
		}
		require.NoError(t, app.Commit())
	}
	return st
}

var oddFloats = []float64{
	0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64,
	-math.SmallestNonzeroFloat64, 0x1p-1022, 1 << 53, 1<<53 + 2, -(1 << 53), 1 << 62, 0x1p63, 1e300, 1e-300, 1, -1, 0.1, 1.0 / 3, math.Float64frombits(0x7ff8000000000001), 1e16, 3,
}

// oddHistogram makes an empty histogram of a layout.
func oddHistogram(r *rand.Rand, name string) *histogram.FloatHistogram {
	h := &histogram.FloatHistogram{Schema: int32(r.IntN(5)) - 1, ZeroThreshold: []float64{0, 1e-128, 0.001, 0.5}[r.IntN(4)]}
	n := 1 + r.IntN(4)
	h.PositiveSpans = []histogram.Span{{Offset: int32(r.IntN(6) - 3), Length: uint32(n)}}
	h.PositiveBuckets = make([]float64, n)
	if name == "nhcb" || name != "gh" && r.IntN(3) == 0 {
		h.Schema, h.ZeroThreshold = histogram.CustomBucketsSchema, 0
		h.CustomValues = [][]float64{{0.1, 1, 5}, {0.1, 1, 2, 5}, {1}, {-1, 0, 1, 10}}[r.IntN(4)]
		n = len(h.CustomValues) + 1
		h.PositiveSpans = []histogram.Span{{Offset: 0, Length: uint32(n)}}
		h.PositiveBuckets = make([]float64, n)
		return h
	}
	if r.IntN(2) == 0 {
		n := 1 + r.IntN(3)
		h.NegativeSpans = []histogram.Span{{Offset: int32(r.IntN(4)), Length: uint32(n)}}
		h.NegativeBuckets = make([]float64, n)
	}
	if name == "gh" {
		h.CounterResetHint = histogram.GaugeType
	}
	return h
}

// growHistogram adds observations, or of a gauge takes some away.
func growHistogram(r *rand.Rand, h *histogram.FloatHistogram, gauge bool) {
	add := func(to *float64, v float64) {
		d := float64(r.IntN(4))
		if gauge && r.IntN(2) == 0 {
			d = -min(d, *to)
		}
		*to += d
		h.Count += d
		h.Sum += d * v
	}
	for i := range h.PositiveBuckets {
		add(&h.PositiveBuckets[i], float64(i)+0.5)
	}
	for i := range h.NegativeBuckets {
		add(&h.NegativeBuckets[i], -float64(i)-0.5)
	}
	if h.Schema != histogram.CustomBucketsSchema {
		add(&h.ZeroCount, 0)
	}
}

// oddQuestion writes a question whose times have nothing in common with those of the data. It
// has none of the functions that may be off in their last bits, of which others could make any
// number.
func oddQuestion(t testing.TB, r *rand.Rand, base int64) question {
	g := newOdd(r, base)
	q := question{query: g.query(), start: base + r.Int64N(oddLength+20*minute) - 10*minute}
	for {
		_, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(q.query)
		if err != nil || !inexact(t, q.query) {
			break
		}
		q.query = g.query()
	}
	q.lookback = []time.Duration{0, 0, 0, time.Millisecond, 999 * time.Millisecond, 7919 * time.Millisecond, time.Minute, time.Hour}[r.IntN(8)]
	switch r.IntN(4) {
	case 0:
		q.end = q.start
	case 1: // one step
		q.end, q.step = q.start, 1+r.Int64N(100_000)
	default:
		q.step = []int64{1, 7, 997, 1000, 7919, 15_000, 15_001, 60_000, 97_003, 300_000, 3_600_000}[r.IntN(11)]
		q.end = q.start + r.Int64N(min(q.step*60, hour))
	}
	return q
}

// TestOdd compares answers to odd queries over odd data, read from a storage and through a
// cache. PROMWARP_RANDOM sets the number of queries, PROMWARP_SEED the first of their seeds,
// of which every query has its own.
func TestOdd(t *testing.T) {
	n, first := fromEnv(t, "PROMWARP_RANDOM", 2000), fromEnv(t, "PROMWARP_SEED", 0)
	for k, base := range []int64{0, -20 * minute, 1_700_000_123_457} {
		t.Run(fmt.Sprint("base=", base), func(t *testing.T) {
			db := oddStorage(t, rand.New(rand.NewPCG(uint64(first), uint64(k))), base)
			settled, _ := cached(t, db, base+oddLength, true)
			young, _ := cached(t, db, base+oddLength, false)
			c := []*comparison{newComparison(false, 2), newComparison(true, 2)}
			invalid := 0 // none that can be asked, which both engines must say in the same words
			for seed := first; seed < first+n; seed++ {
				r := rand.New(rand.NewPCG(uint64(seed), uint64(k)+100))
				ask := oddQuestion(t, r, base)
				data := []storage.Queryable{db, selection.Storage{Source: settled}, selection.Storage{Source: young}}[r.IntN(3)]
				if c[seed%2].compare(t, data, ask) != nil {
					invalid++
				}
			}
			for _, c := range c {
				whole, none := c.taken()
				t.Logf("%v on executors, %v not; %d answered, %d failed, %d undecided", whole, none, c.answered, c.failed, c.undecided)
				require.LessOrEqual(t, c.undecided, n/1000)
				if n >= 1000 {
					require.Greater(t, whole, 0.3*float64(n)/2)
					require.Greater(t, c.answered, n/2/10)
					require.Greater(t, c.failed, n/2/50)
				}
			}
			require.Less(t, invalid, max(n/3, 10))
		})
	}
}

// TestOddCases asks what TestOdd once found another answer to.
func TestOddCases(t *testing.T) {
	st := loadedBlocks(t, `load 1m
		x{a="1", __type__="gauge"} 1 stale _ 2 3
		y{a="2", __unit__="s"} 1 2 3 4 5
		z{a="1"} 1 stale _ 2 3
	`)
	plain, delayed := newComparison(false, 2), newComparison(true, 2)
	for _, query := range []string{
		"limit_ratio(2, limit_ratio(2, y))",
		"limit_ratio(-2, limit_ratio(-2, limit_ratio(-2, y)))",
		"max without (b) (y or abs(x))", // the type goes with the name that x is to lose
		"sum without () (abs(y) or x)",
		"max by (a) (y or abs(x))",
		"max without () (abs(y or abs(x)))",
		"max without (__type__, __unit__) (y or abs(x))",
		"count without () (label_replace(y or abs(x), \"b\", \"$1\", \"a\", \"(.*)\"))",
		"z - on (nope) group_left () fill (7) (z offset 1m)", // of {} and z the engine remembers the result's labels
		"(z offset 1m) - on (nope) group_right () fill (7) z",
		"z > ignoring (a) fill (0) (z offset 1m)",
		"z - fill (0) (z offset 1m)",
		"ts_of_last_over_time(z[3m])",
	} {
		for _, c := range []*comparison{plain, delayed} {
			for _, step := range []int64{0, 1, 60_000} {
				require.NoError(t, c.compare(t, st, question{query: query, end: 5 * minute * min(step, 1), step: max(step, 1000) * min(step, 1)}))
			}
		}
	}
}

// TestGPUOdd asks a GPU, or the host build of the kernels, of samples from before 1970 and after.
func TestGPUOdd(t *testing.T) {
	gpus, reg := testGPUs(t)
	const base = -20 * minute
	c := newComparison(false, 2).onGPUs(gpus)
	db := oddStorage(t, rand.New(rand.NewPCG(8, 1)), base)
	for seed := range uint64(fromEnv(t, "PROMWARP_RANDOM", 300)) {
		ask := oddQuestion(t, rand.New(rand.NewPCG(seed, 200)), base)
		if seed%10 == 0 {
			ask.query = "ts_of_last_over_time(c_total[5m])"
		}
		_ = c.compare(t, db, ask) // an error is that of a question that cannot be asked, in the same words
	}
	require.Positive(t, metric(t, reg, "promwarp_gpu_jobs_total"))
	require.Zero(t, metric(t, reg, "promwarp_gpu_faults_total"))
}

// odd writes expressions over the series of oddStorage: every function and operator that the
// parser knows, by the types of its arguments, and every way to move a selector in time.
type odd struct {
	r         *rand.Rand
	base      int64 // of the data's times, in ms
	functions map[parser.ValueType][]*parser.Function
}

func newOdd(r *rand.Rand, base int64) *odd {
	g := &odd{r: r, base: base, functions: map[parser.ValueType][]*parser.Function{}}
	for _, name := range slices.Sorted(maps.Keys(parser.Functions)) {
		f := parser.Functions[name]
		g.functions[f.ReturnType] = append(g.functions[f.ReturnType], f)
	}
	return g
}

func (g *odd) pick(s ...string) string { return s[g.r.IntN(len(s))] }

// chance is true once in n times.
func (g *odd) chance(n int) bool { return g.r.IntN(n) == 0 }

func (g *odd) matcher() string {
	return g.pick(`job=""`, `job=~""`, `job=~".*"`, `job!=""`, `job!~""`, `nope=""`, `nope!=""`, `nope=~".*"`, `nope!~".+"`,
		`case=~"(?i)foo"`, `case=~"(?i:f)oo"`, `case!~"(?i)FOO|bar"`, `case=~"(?i)[k]"`, `case=~"foo|bar|"`, `case=~"(?s).+"`, `case=~"f.o"`,
		`case=~"foo.*|.*bar"`, `case=~"[^f].*"`, `case=~"a\nb"`, `case=~"a.b"`, `case="a\nb"`, `case!="foo"`, `"ü.x"="1"`, `"ü.x"=~"[12]"`,
		`job="j0"`, `job=~"j[01]"`, `job!~"j[12]"`, `instance=~"i0|i1"`, `instance!="i1"`, `le=~"1|\\+Inf"`, `le!=""`, `__name__!="g"`, `__name__=~"g|c_total"`)
}

func (g *odd) selector() string {
	names := []string{"c_total", "c_total", "g", "g", "big", "mix", "nh", "nhcb", "gh", "lat_bucket", "lat", "sparse", "target_info", "late", "gone"}
	var ms []string
	for g.chance(3) {
		ms = append(ms, g.matcher())
	}
	if g.chance(8) {
		ms = append(ms, g.pick(`"http.latency"`, `"http.latency"`, `__name__=~"c_total|g"`, `__name__=~".*h"`, `__name__=~"(?i)G|NH"`, `__name__=""`, `__name__=~"|g"`, `job="j0"`, `__name__=~"nh|g|mix"`))
		g.r.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
		return "{" + strings.Join(ms, ",") + "}"
	}
	name := g.pick(names...)
	if len(ms) == 0 {
		return name
	}
	return name + "{" + strings.Join(ms, ",") + "}"
}

// duration writes a length of time, mostly an odd one.
func (g *odd) duration() string {
	switch g.r.IntN(12) {
	case 0:
		return g.pick("step()", "2*step()", "step()+1ms", "max_of(step(),1m)", "range()", "min_of(range(),7m)", "1m*2", "5m/3", "2^3", "(1m+7s)", "90s%1m", "+30s", "max_of(1s, range()/7)")
	case 1:
		return strconv.Itoa(1+g.r.IntN(5000)) + "ms"
	case 2:
		return g.pick("0.5", "1.001", "61", "300", "0x10", "1e2", "1m30s1ms")
	}
	return g.pick("1ms", "999ms", "1s", "15s", "15s", "29s999ms", "30s", "30s1ms", "1m", "1m", "97s", "5m", "5m", "13m", "20m", "2h", "1d")
}

func (g *odd) modifiers() string {
	s := ""
	if g.chance(4) {
		at := g.base/1000 + g.r.Int64N(3000) - 200
		s += " @ " + g.pick("start()", "end()", strconv.FormatInt(at, 10), fmt.Sprintf("%d.%03d", at, g.r.IntN(1000)), "-1", "0", "1e9", "1e-3")
	}
	if g.chance(4) {
		o := " offset " + g.pick("", "-") + g.duration()
		if g.chance(2) {
			s += o
		} else {
			s = o + s
		}
	}
	return s
}

func (g *odd) matrix(depth int) string {
	if depth > 0 && g.chance(3) {
		in := g.vector(depth - 1)
		if g.chance(8) {
			in = g.scalar(depth - 1)
		}
		return "(" + in + ")[" + g.pick("1m", "5m", "5m", "7m", "13m", "97s", "1s", "20m", "2h", g.duration()) + ":" + g.pick("", "1m", "30s", "17s", "7s", "61001ms", "10m", "1m30s", "step()") + "]" + g.modifiers()
	}
	s := g.selector() + "[" + g.duration() + "]"
	if g.chance(10) {
		return s + g.pick(" anchored", " smoothed") + g.modifiers()
	}
	return s + g.modifiers()
}

func (g *odd) number() string {
	return g.pick("0", "-0", "1", "2", "3", "-1", "0.5", "0.9", "0.1", "1e308", "-1e308", "5e-324", "9007199254740993", "9223372036854775807", "-9223372036854775808", "1e19", "NaN", "Inf", "-Inf", "0x7fff", "1m", "1.5", "2.5", "10", "100")
}

func (g *odd) scalar(depth int) string {
	if depth <= 0 || g.chance(3) {
		return g.pick(g.number(), g.number(), "time()", "pi()", "step()", "start()", "end()", "range()", "(time() % 7 / 7)")
	}
	switch g.r.IntN(4) {
	case 0:
		return "scalar(" + g.vector(depth-1) + ")"
	case 1:
		return g.pick("min_of", "max_of") + "(" + g.scalar(depth-1) + ", " + g.scalar(depth-1) + ")"
	case 2:
		return g.pick("-", "+", "- -") + "(" + g.scalar(depth-1) + ")"
	}
	return "(" + g.scalar(depth-1) + " " + g.pick("+", "-", "*", "/", "%", "^", "atan2", "> bool", "== bool", "!= bool") + " " + g.scalar(depth-1) + ")"
}

func (g *odd) label() string {
	return g.pick("job", "job", "instance", "instance", "case", "le", "__name__", "nope", `"ü.x"`, "version", "__type__", "__unit__")
}

func (g *odd) labels() string {
	var ls []string
	for g.chance(2) {
		ls = append(ls, g.label())
	}
	return "(" + strings.Join(ls, ", ") + ")"
}

func (g *odd) grouping() string {
	if g.chance(3) {
		return ""
	}
	return " " + g.pick("by", "by", "without") + " " + g.labels() + " "
}

// call writes a call of f.
func (g *odd) call(f *parser.Function, depth int) string {
	var args []string
	add := func(t parser.ValueType) {
		switch t {
		case parser.ValueTypeMatrix:
			args = append(args, g.matrix(depth))
		case parser.ValueTypeScalar:
			args = append(args, g.scalar(g.r.IntN(2)))
		case parser.ValueTypeString:
			args = append(args, g.text(f.Name, len(args)))
		default:
			args = append(args, g.vector(depth-1))
		}
	}
	n := len(f.ArgTypes)
	for i, t := range f.ArgTypes {
		if f.Variadic != 0 && i == n-1 {
			more := g.r.IntN(2)
			if f.Variadic < 0 || f.Variadic > 1 {
				more = g.r.IntN(4)
				if f.Variadic > 0 {
					more = min(more, f.Variadic)
				}
			}
			if f.Name == "histogram_quantiles" {
				more = 1 + g.r.IntN(3)
			}
			for range more {
				add(t)
			}
			continue
		}
		add(t)
	}
	if f.Name == "info" && len(args) > 1 {
		args[1] = g.pick(`{version=~".+"}`, `{__name__="target_info"}`, `{__name__=~".*_info",version!=""}`, `{nope="1"}`, `{version=~"v.*"}`, `{}`)
	}
	return f.Name + "(" + strings.Join(args, ", ") + ")"
}

// text writes argument i of a function.
func (g *odd) text(function string, i int) string {
	switch {
	case function == "label_replace" && i == 1, function == "label_join" && i == 1, function == "histogram_quantiles":
		return strconv.Quote(g.pick("job", "new", "new", "instance", "__name__", "__type__", "ü.x", "", "le", "case"))
	case function == "label_replace" && i == 2:
		return strconv.Quote(g.pick("$1", "$0", "${1}y", "", "x", "$nope", "$$", "\n"))
	case function == "label_replace" && i == 4:
		return strconv.Quote(g.pick("(.*)", "(.+)", "j(.)", "(?i)(FOO)", "", "(?s)(.*)b", "i([01])", "x", "(?P<nope>.)."))
	case function == "label_join" && i == 2:
		return strconv.Quote(g.pick("", "-", "\n", "ü"))
	}
	return strconv.Quote(strings.Trim(g.label(), `"`))
}

func (g *odd) matching() string {
	if g.chance(3) {
		return g.pick("", " on (job, instance) ", " ignoring (case) ")
	}
	s := " " + g.pick("on", "on", "ignoring") + " " + g.labels()
	if g.chance(2) {
		s += " " + g.pick("group_left", "group_right") + " " + g.pick("", "()", g.labels())
	}
	return s + g.pick("", "", "", " fill (0)", " fill_left (-0)", " fill_right (NaN)", " fill (1e308)", " fill (7)")
}

// vector writes an expression that yields an instant vector.
func (g *odd) vector(depth int) string {
	if depth <= 0 {
		if g.chance(4) {
			f := g.functions[parser.ValueTypeVector][g.r.IntN(len(g.functions[parser.ValueTypeVector]))]
			if len(f.ArgTypes) > 0 && slices.Contains(f.ArgTypes, parser.ValueTypeMatrix) {
				return g.call(f, 0)
			}
		}
		if g.chance(12) {
			return g.selector() + g.pick(" smoothed", " anchored") + g.modifiers()
		}
		return g.selector() + g.modifiers()
	}
	in := func() string { return g.vector(depth - 1 - g.r.IntN(2)) }
	switch g.r.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
		fs := g.functions[parser.ValueTypeVector]
		return g.call(fs[g.r.IntN(len(fs))], depth)
	case 6, 7, 8:
		return g.pick("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar") + g.grouping() + "(" + in() + ")"
	case 9:
		op := g.pick("topk", "bottomk", "limitk", "limit_ratio", "quantile", "count_values")
		param := g.pick(g.number(), g.scalar(1), "2", "0.5")
		if op == "count_values" {
			param = g.pick(`"v"`, `"job"`, `"ü.x"`, `"__name__"`)
		}
		return op + g.grouping() + "(" + param + ", " + in() + ")"
	case 10, 11:
		return "(" + in() + ") " + g.pick("+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "== bool", "> bool", "</", ">/") + g.matching() + " (" + in() + ")"
	case 12:
		m := g.pick("", " on "+g.labels(), " ignoring "+g.labels())
		return "(" + in() + ") " + g.pick("and", "or", "unless") + m + " (" + in() + ")"
	case 13:
		return "(" + in() + ") " + g.pick("+", "-", "*", "/", "%", "^", "atan2", "==", "> bool", "<", "</", ">/") + " " + g.scalar(depth-1)
	case 14:
		return g.scalar(depth-1) + " " + g.pick("+", "-", "*", "/", "%", "^", ">", "!= bool") + " (" + in() + ")"
	}
	return g.pick("-", "+", "", "- -") + "(" + in() + ")"
}

// query writes a query of any type.
func (g *odd) query() string {
	switch g.r.IntN(40) {
	case 0:
		return g.scalar(3)
	case 1:
		return g.matrix(2)
	case 2:
		return g.pick(`"text"`, `"ü\n"`)
	}
	return g.vector(1 + g.r.IntN(4))
}
