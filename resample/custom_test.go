package resample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/custom"
)

// withExamples are requests that may name the aggregates of examples/aggregates.yml.
func withExamples(t require.TestingT) Known {
	text, err := os.ReadFile("../examples/aggregates.yml")
	require.NoError(t, err)
	var file struct{ Aggregates []custom.Source }
	require.NoError(t, yaml.Unmarshal(text, &file))
	k := known
	k.Aggregates, err = custom.AddTo(aggregate.Library{}, file.Aggregates)
	require.NoError(t, err)
	return k
}

// askExamples answers a request that may name the examples: the values of each series by its labels.
func askExamples(t *testing.T, st stored, workers int, text string) map[string][][]float64 {
	r, err := Parse(form(text), now, withExamples(t))
	require.NoError(t, err, text)
	p, err := NewPlan(r)
	require.NoError(t, err, text)
	got, err := New(Options{Workers: workers}).Run(t.Context(), st, p)
	require.NoError(t, err, text)
	defer got.Release()
	out := map[string][][]float64{}
	for _, s := range got.Series {
		for _, row := range s.Rows {
			out[s.Labels.String()] = append(out[s.Labels.String()], append([]float64(nil), row.Values...))
		}
	}
	return out
}

// examplesData are two series with a sample each 10 s, of two buckets of a minute.
func examplesData(t *testing.T) stored {
	series := func(name string, from int64, vs ...float64) samples {
		s := samples{labels: labels.FromStrings("__name__", "m", "i", name), vs: vs}
		for i := range vs {
			s.ts = append(s.ts, from+int64(i)*10_000)
		}
		return s
	}
	return store(t, []samples{
		series("a", 0, 70, 90, 100, 80, 81, 82 /* next minute */, 90, 10, 90),
		series("b", 5000, 1, 85, 85, 2, 2, 3),
	})
}

// TestExamples: each example by its definition in words.
func TestExamples(t *testing.T) {
	st := examplesData(t)
	decay := 1 - math.Exp(-10.0/60)
	ema := func(vs ...float64) float64 {
		mean := vs[0]
		for _, v := range vs[1:] {
			mean += decay * (v - mean)
		}
		return mean
	}
	for name, want := range map[string][3][]float64{ // of a, of b, of both
		"rms":            {{math.Sqrt((4900 + 8100 + 10000 + 6400 + 6561 + 6724) / 6.), math.Sqrt((8100 + 100 + 8100) / 3.)}, {math.Sqrt((1 + 7225 + 7225 + 4 + 4 + 9) / 6.)}, {math.Sqrt(57153 / 12.), math.Sqrt(16300 / 3.)}},
		"geometric_mean": {{math.Pow(70*90*100*80*81*82, 1/6.), math.Pow(81000, 1/3.)}, {math.Pow(86700, 1/6.)}, {math.Pow(70*90*100*80*81*82*86700, 1/12.), math.Pow(81000, 1/3.)}},
		// a: 90 100, then 81 82. Together: 70 1 90 85 100 85 80 2 81 2 82 3, each 5 s.
		"longest_above": {{10, 0}, {10}, {15, 0}},
		"ema":           {{ema(70, 90, 100, 80, 81, 82), ema(90, 10, 90)}, {ema(1, 85, 85, 2, 2, 3)}, nil},
		"crossings":     {{2, 1}, {1}, {3, 1}},
		// a: 20 s of 90 and 100, 20 s of 81 and 82 to the end; then all but the 10 s of 10.
		"seconds_above": {{40, 50}, {20}, {60, 50}},
		"energy":        {{4270, 1000}, {1760}, {6030, 1000}},
	} {
		got := askExamples(t, st, 1, "metric=m&start=0&end=120&every=1m&aggregates="+name)
		require.InDeltaSlice(t, want[0], got[`{__name__="m", i="a"}`][0], 1e-9, name)
		require.InDeltaSlice(t, want[1], got[`{__name__="m", i="b"}`][0], 1e-9, name)
		if want[2] != nil {
			got = askExamples(t, st, 1, "metric=m&start=0&end=120&every=1m&by=&aggregates="+name)
			require.InDeltaSlice(t, want[2], got["{}"][0], 1e-9, name)
		}
	}
}

// TestCustomWays: custom aggregates of differences, as an aggregate of aggregates, by an alias,
// beside built-in ones, and of overlapping windows.
func TestCustomWays(t *testing.T) {
	st := examplesData(t)
	ask := func(text string) [][]float64 {
		return askExamples(t, st, 2, "metric=m&start=0&end=60&every=1m&"+text)["{}"]
	}
	rise := math.Sqrt((400 + 100 + 6400 + 1 + 1 + 84*84 + 0 + 4 + 0 + 1) / 10.) // 80 and 2 are resets
	got := ask("by=&aggregates=rate:rms,geomean,max,count")
	require.InDeltaSlice(t, []float64{rise, math.Pow(70*90*100*80*81*82*86700, 1/12.), 100, 12}, []float64{got[0][0], got[1][0], got[2][0], got[3][0]}, 1e-9)
	require.InDelta(t, math.Sqrt((100*100+85*85)/2.), ask("reaggregate=rms&aggregates=max")[0][0], 1e-9)
	require.InDelta(t, 1.5, ask("reaggregate=mean&aggregates=crossings")[0][0], 0)
	require.Zero(t, ask("reaggregate=crossings&aggregates=seconds_above,max")[1][0], "100, then 85")
	overlapping := askExamples(t, st, 1, "metric=m&start=0&end=60&every=20s&period=40s&aggregates=crossings")
	require.Equal(t, []float64{1, 1, 0}, overlapping[`{__name__="m", i="a"}`][0])

	_, err := Parse(form("metric=m&start=0&end=60&every=1m&aggregates=max&reaggregate=energy"), now, withExamples(t))
	require.ErrorContains(t, err, `"energy" cannot be made of the values of series`)
	_, err = Parse(form("metric=m&start=0&end=60&every=1m&aggregates=geomean,geometric_mean"), now, withExamples(t))
	require.ErrorContains(t, err, `"geometric_mean" is the same as "geomean"`)
	_, err = Parse(form("metric=m&start=0&end=60&every=1m&aggregates=rate:crosings"), now, withExamples(t))
	require.ErrorContains(t, err, `did you mean "rate:crossings"?`)
}

// TestDefine: requests that define aggregates, as JSON and in a form, and what is wrong with some.
func TestDefine(t *testing.T) {
	f := form("metric=m&start=0&end=60&every=1m&by=&aggregates=first_plus,rate:top,max")
	f["define"] = []string{
		`{"name": "first_plus", "state": {"x": 0}, "add": {"x": "first ? v : x + 1"}, "result": "x"}`,
		`{"name": "top", "state": {"x": "-inf", "seen": "false"}, "add": {"x": "max(x, v)", "seen": true}, "merge": {"x": "max(a.x, b.x)", "seen": "a.seen or b.seen"}, "result": "seen ? x : nan"}`,
	}
	p, err := planned(f)
	require.NoError(t, err)
	got, err := New(Options{Workers: 2}).Run(t.Context(), examplesData(t), p)
	require.NoError(t, err)
	defer got.Release()
	require.Equal(t, [][]point{{{0, 70 + 11}}, {{0, 84}}, {{0, 100}}}, rows(got)["{}"])
	x := p.Explain()
	require.Equal(t, []string{"first_plus"}, x.Passes[0].Aggregates)
	require.Equal(t, "custom: 2 instructions a sample; without merge, the samples of a group are held and put in the order of time, by cores", x.Passes[0].Note)
	require.Equal(t, []string{"max"}, x.Passes[1].Aggregates)
	require.Equal(t, "differences", x.Passes[2].Of)

	for definition, want := range map[string]Error{
		`{name: max, state: {x: 0}, add: {x: v}, result: x}`:     {CodeInvalidAggregate, "define", `aggregate "max", name: there is an aggregate "max" already`, "give it another name"},
		`{name: m, state: {x: 0}, add: {x: w}, result: x}`:       {CodeInvalidAggregate, "define", `aggregate "m", add.x, line 1, column 1: there is no "w"`, "there are first, prev_t, prev_v, t, v, x"},
		`{name: m, states: {x: 0}}`:                              {CodeInvalidValue, "define", `line 1: field states not found; give an object with name, state, add, result and perhaps merge`, ""},
		`{name: m, state: {x: 0, x: 1}, add: {x: v}, result: x}`: {CodeInvalidValue, "define", `line 1: key "x" already set in map; give an object with name, state, add, result and perhaps merge`, ""},
		`]`: {CodeInvalidValue, "define", `did not find expected node content; give an object with name, state, add, result and perhaps merge`, ""},
	} {
		_, err := planned(form("metric=m&start=0&every=1m&aggregates=m&define=" + url.QueryEscape(definition)))
		require.Equal(t, &want, err, definition)
	}
	p, err = planned(form("metric=m&start=0&end=60&every=1m&aggregates=max&reaggregate=r&define=" + url.QueryEscape(`{name: r, state: {x: 0}, add: {x: v}, result: x}`) + "&define="))
	require.NoError(t, err)
	require.Contains(t, p.Explain().Note, "custom: 0 instructions")
	closed := known
	closed.Define = false
	_, err = Parse(f, now, closed)
	require.ErrorContains(t, err, "requests may not define aggregates here")
}

// TestCustomLimits: samples that are held without merge count, and so does the memory of workers.
func TestCustomLimits(t *testing.T) {
	st := examplesData(t)
	run := func(o Options, text string) error {
		r, err := Parse(form("metric=m&start=0&end=60&every=1m&by=&aggregates="+text), now, withExamples(t))
		require.NoError(t, err)
		p, err := NewPlan(r)
		require.NoError(t, err)
		result, err := New(o).Run(t.Context(), st, p)
		if err == nil {
			result.Release()
		}
		return err
	}
	require.NoError(t, run(Options{MaxSamples: 11}, "rms"))
	require.ErrorIs(t, run(Options{MaxSamples: 11}, "ema"), promql.ErrTooManySamples("resampling"))
	require.NoError(t, run(Options{MaxSamples: 13}, "ema"))
	require.NoError(t, run(Options{Workers: 2, MaxMemory: 30_000}, "sum"))
	var beyond *operator.MemoryError
	require.ErrorAs(t, run(Options{Workers: 2, MaxMemory: 30_000}, "rms"), &beyond)
	require.NoError(t, run(Options{Workers: 1, MaxMemory: 30_000}, "rms"))
}

// TestCustomCores: the same bits with any number of workers, of groups with merge and without.
func TestCustomCores(t *testing.T) {
	var series []samples
	for i := range 60 {
		s := samples{labels: labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i), "job", fmt.Sprint(i%3))}
		for k := range int64(some(2000)) {
			s.ts, s.vs = append(s.ts, k*1000+int64(i*37%900)), append(s.vs, 80+40*math.Sin(float64(k*int64(i+1)))/float64(1+k%7))
		}
		series = append(series, s)
	}
	st := store(t, series)
	for _, more := range []string{"", "&by=job", "&by=job&reaggregate=rms", "&by=&period=2m"} {
		text := "metric=m&start=0&end=2000&every=1m&aggregates=rms,geomean,longest_above,ema,crossings,seconds_above,energy,rate:ema,median" + more
		want := askExamples(t, st, 1, text)
		require.NotEmpty(t, want)
		for _, workers := range []int{2, 7} {
			for name, all := range askExamples(t, st, workers, text) {
				for a := range all {
					for i := range all[a] {
						require.Equal(t, math.Float64bits(want[name][a][i]), math.Float64bits(all[a][i]), "%d workers: %s of %s", workers, text, name)
					}
				}
			}
		}
	}
}

// TestLikeBuiltIn: custom aggregates that say what built-in ones do come to the same, of any request.
func TestLikeBuiltIn(t *testing.T) {
	one := func(name, start, add, merge string) custom.Source {
		s := custom.Source{Name: name, State: map[string]string{"x": start}, Add: map[string]string{"x": add}, Result: "x"}
		if merge != "" {
			s.Merge = map[string]string{"x": merge}
		}
		return s
	}
	pairs := [][2]string{{"count", "n"}, {"count", "n_in_time"}, {"min", "lo"}, {"max", "hi_in_time"}, {"first", "first_in_time"}, {"rate:count", "rate:n"}, {"rate:min", "rate:lo"}, {"rate:first", "rate:first_in_time"}}
	k := known
	var err error
	k.Aggregates, err = custom.AddTo(aggregate.Library{}, []custom.Source{
		one("n", "0", "x + 1", "a.x + b.x"), one("n_in_time", "0", "x + 1", ""), one("lo", "nan", "min(x, v)", "min(a.x, b.x)"),
		one("hi_in_time", "nan", "max(v, x)", ""), one("first_in_time", "0", "first ? v : x", ""),
	})
	require.NoError(t, err)
	again := []string{"count", "min", "max"}
	againLike := []string{"n_in_time", "lo", "hi_in_time"}
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 11))
		f := form(randomRequest(r))
		kind := r.IntN(len(again))
		var series []samples
		var got [2]map[string][][]point
		for i := range got {
			f.Set("aggregates", "count,min,max,first,rate:count,rate:min,rate:first")
			if f.Has("reaggregate") {
				f.Set("reaggregate", again[kind])
			}
			if i == 1 {
				f.Set("aggregates", "n,n_in_time,lo,hi_in_time,first_in_time,rate:n,rate:lo,rate:first_in_time")
				if f.Has("reaggregate") {
					f.Set("reaggregate", againLike[kind])
				}
			}
			request, err := Parse(f, now, k)
			require.NoError(t, err)
			p, err := NewPlan(request)
			require.NoError(t, err)
			if series == nil {
				series = randomSeries(r, p.Start, p.End, p.Grouping == nil)
			}
			result, err := New(Options{Workers: 1 + r.IntN(4)}).Run(t.Context(), store(t, series), p)
			require.NoError(t, err)
			got[i] = rows(result)
			result.Release()
		}
		require.Equal(t, len(got[0]), len(got[1]), "seed %d", seed)
		for name, custom := range got[1] {
			builtIn := got[0][name]
			builtIn = append([][]point{builtIn[0]}, builtIn...) // count, twice
			for a, row := range custom {
				require.Equal(t, len(builtIn[a]), len(row), "seed %d: %s of %s", seed, pairs[a], name)
				for i, x := range row {
					require.Equal(t, builtIn[a][i].bucket, x.bucket)
					require.True(t, alike(builtIn[a][i].v, x.v, 0), "seed %d: %v of %s: %v is not %v", seed, pairs[a], name, x.v, builtIn[a][i].v)
				}
			}
		}
	}
}
