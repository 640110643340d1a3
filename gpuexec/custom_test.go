package gpuexec_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/resample/custom"
	"github.com/promwarp/promwarp/resample/custom/customtest"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// sources reads custom aggregates from YAML.
func sources(t testing.TB, text string) []custom.Source {
	var file struct{ Aggregates []custom.Source }
	require.NoError(t, yaml.Unmarshal([]byte(text), &file))
	return file.Aggregates
}

// examples are those of examples/aggregates.yml.
func examples(t testing.TB) []custom.Source {
	text, err := os.ReadFile("../examples/aggregates.yml")
	require.NoError(t, err)
	return sources(t, string(text))
}

// TestCustom: which custom aggregates a GPU computes, and why not the others.
func TestCustom(t *testing.T) {
	for text, want := range map[string]string{
		"aggregates=sum,rms,rate:rms&by=job":  "",
		"aggregates=rms,crossings,energy,max": "",
		"aggregates=longest_above":            "",
		"aggregates=longest_above&by=job":     "a custom aggregate needs the cores: longest_above: without merge, the samples of a group are put in the order of time, which the cores do",
		"aggregates=geomean":                  "a custom aggregate needs the cores: geometric_mean: exp and log would have other bits on a GPU",
		"aggregates=ema":                      "a custom aggregate needs the cores: ema: exp would have other bits on a GPU",
		"aggregates=sum&reaggregate=rms":      "",
		"aggregates=sum&reaggregate=geomean":  "a custom aggregate needs the cores: geometric_mean: exp and log would have other bits on a GPU",
		"aggregates=rms&reaggregate=max&by=a": "",
	} {
		require.Equal(t, want, planned(t, "metric=m&start=0&end=60&every=1m&"+text, examples(t)...).Unsuited(), text)
	}
	many, names := []custom.Source{}, []string{}
	for i := range 9 {
		s := examples(t)[0]
		s.Name, s.Aliases = fmt.Sprint("rms", i), nil
		many, names = append(many, s), append(names, s.Name, "rate:"+s.Name)
	}
	for n, want := range map[int]string{16: "", 17: "more than 16 custom aggregates are not computed at once on the GPU"} {
		require.Equal(t, want, planned(t, "metric=m&start=0&end=60&every=1m&aggregates="+strings.Join(names[:n], ","), many...).Unsuited())
	}
}

// TestExamples compares each example with the cores, of each series and of groups.
func TestExamples(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 256 << 20, Staging: 8 << 20})
	sel := random(t, rand.New(rand.NewPCG(1, 2)), 60, 0, 36_000_000)
	computed := 0
	for _, s := range examples(t) {
		for _, group := range []string{"", "&by=job", "&by=job&reaggregate=mean"} {
			form := "metric=m&every=5m&start=0&end=36000&aggregates=count," + s.Name + ",rate:" + s.Name + group
			if planned(t, form, examples(t)...).Unsuited() == "" {
				computed++
				check(t, a, selection.Single{Selection: sel}, form, form, examples(t)...)
			}
		}
	}
	require.Equal(t, 4*3+2, computed, "four in all ways, one of them without merge in two")
}

// TestRandomCustom compares random aggregates over random series with the cores: beside others, of
// differences, of groups, and of what others have made of series.
func TestRandomCustom(t *testing.T) {
	a := on(t, pipeline.Options{Memory: 256 << 20, Staging: 8 << 20})
	a.GoodBatch = 1 << 18
	batches, again := 0, 0
	for round := range some(*rounds) {
		r := rand.New(rand.NewPCG(*seed, uint64(1000+round)))
		form, start, end := randomRequest(r)
		fields := []string{"random", "random", "random", "random,count", "sum,random,rate:random", "rate:random", "mean,std,random"}[r.IntN(7)]
		before, rest, _ := strings.Cut(form, "&aggregates=")
		_, rest, _ = strings.Cut(rest, "&")
		form = before + "&aggregates=" + fields + "&" + rest
		s := custom.Source(customtest.Random(r, false))
		if r.IntN(4) == 0 {
			s.Merge = nil
		}
		d, err := s.Compile()
		require.NoError(t, err)
		if strings.Contains(form, "reaggregate=") && d.Reaggregates && s.Merge != nil {
			form = regexp.MustCompile("reaggregate=[a-z]+").ReplaceAllString(form, "reaggregate=random")
			again++
		}
		if reason := planned(t, form, s).Unsuited(); reason != "" {
			require.Contains(t, reason, "without merge", form)
			continue
		}
		sel := random(t, r, 1+r.IntN(120), 1000*start, 1000*end)
		a.Last.Stages.Batches = 0
		check(t, a, selection.Single{Selection: sel}, form, fmt.Sprintf("-resampling.seed=%d, round %d: %s\n%+v", *seed, round, form, s), s)
		batches = max(batches, a.Last.Stages.Batches)
	}
	require.GreaterOrEqual(t, batches, 3)
	require.Positive(t, again)
	require.Greater(t, a.computed, some(*rounds)*2/3)
}

// TestOperations compares each operation with the cores, of all pairs of some values: a bucket has
// one pair.
func TestOperations(t *testing.T) {
	values := append([]float64{1, -1, 2.5, -2.5, 0.1, 3, 1e300, -1e-310}, oddValues...)
	values = slices.DeleteFunc(values, func(v float64) bool { return value.IsStaleNaN(v) })
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	var ts []int64
	var vs []float64
	for i, x := range values {
		for k, y := range values {
			at := 60_000 * int64(len(values)*i+k)
			ts, vs = append(ts, at, at+1), append(vs, x, y)
		}
	}
	for at := 0; at < len(ts); at += 100 {
		to := min(at+100, len(ts))
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[at], ts[to-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts[at:to], vs[at:to])))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	var names []string
	var all []custom.Source
	for i, of := range []string{
		"v + prev_v", "v - prev_v", "v * prev_v", "v / prev_v", "-v", "abs(v)", "sqrt(v)", "floor(v)", "ceil(v)",
		"min(v, prev_v)", "max(v, prev_v)", "min(v, prev_v, f)", "first ? v : f", "t - prev_t", "v * v + prev_v", "f",
		"v < prev_v ? 1 : 2", "v <= prev_v ? 1 : 2", "v == prev_v ? 1 : 2", "v != prev_v ? 1 : 2", "v > prev_v ? v : prev_v", "v >= prev_v ? 1 : 2",
		"(v < 1 ? prev_v < 2 : v < 3) ? 1 : 2", "v < 1 && prev_v < 2 ? 1 : 2", "v < 1 || prev_v < 2 ? 1 : 2", "!(v < 1) ? 1 : 2",
		"(v < 1) == (prev_v < 1) ? 1 : 2", "(v < 1) != (prev_v < 1) ? 1 : 2", "up ? v : prev_v",
	} {
		name := fmt.Sprint("op", i)
		names = append(names, name)
		all = append(all, custom.Source{
			Name: name, State: map[string]string{"f": "2", "up": "true"}, Result: "f",
			Add: map[string]string{"f": of, "up": "up != (v < prev_v)"},
		})
	}
	a := on(t, pipeline.Options{Memory: 256 << 20, Staging: 8 << 20})
	for len(names) > 0 {
		n := min(16, len(names))
		form := fmt.Sprintf("metric=m&every=1m&start=0&end=%d&aggregates=%s", 60*len(ts)/2, strings.Join(names[:n], ","))
		check(t, a, selection.Single{Selection: sel}, form, form, all...)
		names = names[n:]
	}
	require.Equal(t, 2, a.computed)
}
