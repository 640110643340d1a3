package report

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/internal/dataset"
)

func TestTiming(t *testing.T) {
	got := NewTiming([]time.Duration{3 * time.Millisecond, time.Millisecond, 2500 * time.Microsecond})
	require.Equal(t, Timing{Median: 2.5, Min: 1, Max: 3, All: []float64{3, 1, 2.5}}, got)
}

func TestMedian(t *testing.T) {
	v := []float64{4, 1, 3, 2}
	require.InDelta(t, 2.5, median(v), 0)
	require.Equal(t, []float64{4, 1, 3, 2}, v, "must stay as it is")
	require.InDelta(t, 7, median([]float64{7}), 0)
}

func TestGeometricMean(t *testing.T) {
	require.InDelta(t, 4, GeometricMean([]float64{2, 8}), 1e-12)
	require.True(t, math.IsNaN(GeometricMean(nil)))
}

// example is a result of two queries that went well, one with an error and one
// that was answered wrongly.
func example() *Result {
	timings := func(prometheus, first, repeated, vm float64) map[string]Timing {
		m := map[string]Timing{Prometheus: {Median: prometheus, All: []float64{prometheus}}, PromwarpFirst: {Median: first}, Promwarp: {Median: repeated}}
		if vm > 0 {
			m[VictoriaMetrics] = Timing{Median: vm}
		}
		return m
	}
	r := &Result{
		Setup: Setup{
			Contenders: []string{Prometheus, PromwarpFirst, Promwarp, VictoriaMetrics},
			Versions:   map[string]string{"Prometheus": "v3"},
			Cores:      2, Hours: 24, Rounds: 3, End: 1700000000, Data: dataset.Stats{Series: 10, Samples: 1000},
		},
		Rows: []Row{
			{Name: "a", Expr: "sum(a) or up", Range: "1d", Step: "1m", Points: 7, Timings: timings(100, 50, 10, 25), Other: &answer.Difference{Values: 1, Worst: 0.25}},
			{Name: "b", Expr: "b", Range: "6h", Step: "15s", Timings: timings(400, 100, 10, 0), Other: &answer.Difference{First: "status 422"}},
			{Name: "c", Error: "Prometheus: too slow"},
			{Name: "d", Timings: timings(10, 10, 10, 10), Wrong: &answer.Difference{Values: 1, First: "is 2 instead of 1"}},
		},
		PeakRSS:  map[string]int64{"Prometheus": 5 << 20},
		WallTime: 12,
	}
	r.Finish()
	return r
}

func TestRatios(t *testing.T) {
	r := example()
	require.Len(t, r.Ratios, len(columns))
	first := r.Ratios[0]
	require.Equal(t, PromwarpFirst, first.Contender)
	require.Equal(t, 3, first.Queries)
	require.InDelta(t, 2, first.Mean, 1e-12) // of 2, 4 and 1
	require.Equal(t, "d", first.LeastOf)
	require.InDelta(t, 1, first.Least, 0)
	require.Equal(t, "b", first.MostOf)
	require.InDelta(t, 4, first.Most, 0)
	vm := r.Ratios[2]
	require.Equal(t, VictoriaMetrics, vm.Contender)
	require.Equal(t, 2, vm.Queries) // it had an error for one
	require.Equal(t, 2, r.Failed())
	require.Equal(t, 2, r.Others())
}

func TestTable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, example().WriteTable(&b))
	lines := strings.Split(b.String(), "\n")
	require.Regexp(t, `^query +range +points +Prometheus ms +first ms +repeated ms +VM ms +first × +repeated × +VM × +first/VM × +repeated/VM × +promwarp's answer +VM's answer$`, lines[0])
	require.Regexp(t, `^a +1d@1m +7 +100\.0 +50\.0 +10\.0 +25\.0 +2\.00 +10\.0 +4\.00 +0\.50 +2\.50 +same +off by 25%$`, lines[1])
	require.Regexp(t, `^b .* 40\.0 +same +error$`, lines[2])
	require.Regexp(t, `^c .*ERROR`, lines[3])
	require.Regexp(t, `^d .*DIFFERS +same`, lines[4])
	require.Regexp(t, `^geometric mean +2\.00 +7\.37 +2\.00`, lines[5])
	for _, note := range []string{
		"promwarp first over prometheus: geometric mean 2.00× of 3 queries, least 1.00× (d), most 4.00× (b)",
		"answers of promwarp that are not Prometheus's, or failed: 2 of 4",
		"answers of VictoriaMetrics that are not Prometheus's: 2 of 4",
		"peak resident memory of Prometheus: 5 MiB",
		"c: Prometheus: too slow",
		"fewer rounds, for they took long: a (1), b (1), d (1)",
		"d: promwarp's answer: is 2 instead of 1",
		"up to 2023-11-14T22:13:20Z",
	} {
		require.Contains(t, b.String(), note)
	}
}

// Without a peer there are no columns of it.
func TestTableOfFew(t *testing.T) {
	r := example()
	r.Setup.Contenders = r.Setup.Contenders[:3]
	var b strings.Builder
	require.NoError(t, r.WriteTable(&b))
	require.NotContains(t, strings.SplitN(b.String(), "\n", 2)[0], "VM")
	require.NotContains(t, b.String(), "answers of VictoriaMetrics")

	r.Setup.Contenders = []string{Prometheus}
	b.Reset()
	require.NoError(t, r.WriteTable(&b))
	require.NotContains(t, b.String(), "×  ")
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	require.NoError(t, example().WriteMarkdown(&b))
	lines := strings.Split(b.String(), "\n")
	cells := strings.Count(lines[0], "|")
	for _, line := range lines[1:7] {
		require.Equal(t, cells, strings.Count(line, "|"), line)
	}
	require.True(t, strings.HasPrefix(lines[2], "| `a` | 1d@1m | 7 | 100.0 |"), lines[2])
	require.True(t, strings.HasPrefix(lines[6], "| geometric mean |"), lines[6])
	require.Contains(t, b.String(), "- `a`: `sum(a) or up`")
	require.Error(t, example().WriteMarkdown(failing{}))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	want := example()
	require.NoError(t, want.WriteJSON(file))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got Result
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, *want, got)
	require.Error(t, want.WriteJSON(filepath.Join(file, "below")))
}

func TestDigits(t *testing.T) {
	require.Equal(t, []string{"0.17", "9.99", "12.3", "1235"}, []string{Times(0.167), Times(9.99), Times(12.34), Times(1234.6)})
	require.Equal(t, []string{"90%", "100%", "2%", "0.004%", "2e-09%"}, []string{percent(0.9), percent(1), percent(0.02), percent(0.00004), percent(2e-11)})
}

// Of queries that all were asked, more cores are as efficient as the mean of their times says.
func TestCores(t *testing.T) {
	on := func(one, four float64) Row {
		return Row{Timings: map[string]Timing{OnCores(1): {Median: one}, OnCores(4): {Median: four}}}
	}
	r := &Result{Rows: []Row{on(100, 50), {Error: "none"}, on(400, 50)}}
	var b strings.Builder
	require.NoError(t, r.WriteCores(&b, []int{1, 4}))
	require.Contains(t, b.String(), "| 1 | 200.0 | 1.00 |\n| 4 | 50.0 | 1.00 |\n")
	b.Reset()
	require.NoError(t, r.WriteCores(&b, nil))
	require.Empty(t, b.String())
}
