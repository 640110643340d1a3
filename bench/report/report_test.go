package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/dataset"
)

// A table for a terminal has aligned columns.
func ExampleTable() {
	t := Table{Title: "Two.", Left: 1, Head: []string{"a", "way"}}
	t.Add("1×", "x")
	t.Add("22")
	_ = t.Write(os.Stdout)
	// Output:
	// Two.
	//
	// | a   | way  |
	// | --- | ---: |
	// | 1×  | x    |
	// | 22  |
}

func TestTiming(t *testing.T) {
	got := NewTiming([]time.Duration{3 * time.Millisecond, time.Millisecond, 2500 * time.Microsecond})
	require.Equal(t, Timing{Median: 2.5, Min: 1, Max: 3, All: []float64{3, 1, 2.5}}, got)
	require.InDelta(t, 3, got.percentile(0.99), 0)
	require.InDelta(t, 2.5, got.percentile(0.6), 0)
}

func TestMedian(t *testing.T) {
	v := []float64{4, 1, 3, 2}
	require.InDelta(t, 2.5, Median(v), 0)
	require.Equal(t, []float64{4, 1, 3, 2}, v, "must stay as it is")
	require.InDelta(t, 7, Median([]float64{7}), 0)
	require.True(t, math.IsNaN(Median(nil)))
}

func TestLimits(t *testing.T) {
	calls := 0
	ms, err := Limits{4, time.Minute}.Median(func() error { calls++; time.Sleep(time.Millisecond); return nil })
	require.NoError(t, err)
	require.Equal(t, 5, calls, "and one to warm up")
	require.GreaterOrEqual(t, ms, 1.0)

	calls = 0
	ms, err = Limits{4, time.Nanosecond}.Median(func() error { calls++; time.Sleep(time.Millisecond); return nil })
	require.NoError(t, err)
	require.Equal(t, 1, calls, "beyond the budget the first one counts")
	require.GreaterOrEqual(t, ms, 1.0)

	failed := errors.New("failed")
	_, err = Limits{1, time.Minute}.Median(func() error { return failed })
	require.ErrorIs(t, err, failed)
}

func TestGeometricMean(t *testing.T) {
	require.InDelta(t, 4, GeometricMean([]float64{2, 8}), 1e-12)
	require.True(t, math.IsNaN(GeometricMean(nil)))
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "", 0.01234: "0.012", 0.5: "0.50", 9.99: "9.99", 12.34: "12.3", 1234.5: "1234", math.NaN(): ""} {
		require.Equal(t, want, Number(v))
	}
	require.Equal(t, "2.00×", Times(4, 2))
	require.Empty(t, Times(0, 2))
}

// example is a result of two queries that went well, one with an error and one
// that was answered wrongly.
func example() *Result {
	r := &Result{Setup: Setup{Processor: "A", Cores: 2, Rounds: 3, Versions: map[string]string{"Go": "v1"}}, Wall: 12}
	s := r.Stage("dashboards")
	s.Hours, s.Rounds, s.End, s.Data = 24, 3, 1700000000, dataset.Stats{Series: 10, Samples: 1000}
	s.Contend(Prometheus, PromwarpFirst, Promwarp, VictoriaMetrics)
	s.Compare(Prometheus, PromwarpFirst, "first ×")
	s.Compare(Prometheus, Promwarp, "repeated ×")
	s.Compare(Prometheus, VictoriaMetrics, "VM ×")
	s.Compare(VictoriaMetrics, PromwarpFirst, "first/VM ×")
	s.Compare(VictoriaMetrics, Promwarp, "repeated/VM ×")
	put := func(row Row, ms ...float64) {
		row.Costs = map[string]Cost{}
		for i, m := range ms {
			row.Costs[s.Contenders[i]] = Cost{Timing: Timing{Median: m, All: []float64{m}}, CPU: 2 * m}
		}
		*s.Row(row.Name) = row
	}
	put(Row{Name: "a", Expr: "sum(a) or up", Range: "1d", Step: "1m", Points: 7, Note: "same", Other: "value 1 instead of 2"}, 100, 50, 10, 25)
	put(Row{Name: "b", Expr: "b", Range: "6h", Step: "15s", Note: "same", Other: "refused: status 422"}, 400, 100, 10)
	put(Row{Name: "c", Error: "Prometheus: too slow"})
	put(Row{Name: "d", Note: "same", Wrong: "value 2 instead of 1"}, 10, 10, 10, 10)
	s.PeakRSS["Prometheus"] = 5 << 20
	return r
}

func TestRatio(t *testing.T) {
	s := example().Stage("dashboards")
	first := s.ratio(s.Pairs[0])
	require.Equal(t, 3, first.n)
	require.InDelta(t, 2, first.mean, 1e-12) // of 2, 4 and 1
	require.Equal(t, "1 d 4 b", fmt.Sprint(first.least, " ", first.leastOf, " ", first.most, " ", first.mostOf))
	require.Equal(t, 2, s.ratio(s.Pairs[2]).n, "it had an error for one")
	require.Equal(t, 2, s.failed())

	many := s.Row("at once")
	many.Costs[Prometheus], many.Costs[PromwarpFirst] = Cost{Timing: Timing{Median: 9}, PerSecond: 1}, Cost{Timing: Timing{Median: 1}, PerSecond: 9}
	require.Equal(t, 3, s.ratio(s.Pairs[0]).n, "answers to many at once are no query's")
}

func TestTables(t *testing.T) {
	r := example()
	r.Stages[0].Details = true
	all := r.Tables()
	require.Len(t, all, 3)
	for i, want := range []string{
		"| query | range | points | Prometheus ms | first ms | repeated ms | VM ms | first × | repeated × | VM × | first/VM × | repeated/VM × | answers |\n",
		"| `a` | 1d@1m | 7 | 100.0 | 50.0 | 10.0 | 25.0 | 2.00 | 10.0 | 4.00 | 0.50 | 2.50 | same but VM's |\n",
		"| `c` |  | 0 |  |  |  |  |  |  |  |  |  | ERROR |\n",
		"| 10.0 | 10.0 | 10.0 | 10.0 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | DIFFER |\n",
		"| geometric mean |  |  |  |  |  |  | 2.00 | 7.37 | 2.00 |",
	} {
		require.Contains(t, all[0].Markdown(), want, i)
	}
	require.Contains(t, all[1].Markdown(), "| Prometheus over promwarp first | 3 | 73.7 | 36.8 | 2.00× | 1.00× | d | 4.00× | b |\n")
	require.Contains(t, all[2].Markdown(), "| `a` | VictoriaMetrics |  | 25.0 | 25.0 | 50.0 |  |  |  |  |\n")
	notes := strings.Join(r.Notes(), "\n")
	for _, note := range []string{
		"dashboards: 10 series, 1000 samples, 24 h up to 2023-11-14T22:13:20Z; at most 3 rounds; 2 of 4 answered wrongly, or failed",
		"dashboards: peak resident memory of Prometheus: 5 MiB",
		"dashboards: c: Prometheus: too slow",
		"dashboards: d: not Prometheus's answer: value 2 instead of 1",
		"answers that are not Prometheus's, or failed: 2",
	} {
		require.Contains(t, notes, note)
	}
	require.Empty(t, (&Result{Stages: []*Stage{{}}}).Tables())
}

// What is written is read again, and a stage and a row are found by their names.
func TestWriteJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	want := example()
	require.NoError(t, WriteJSON(file, want))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var got Result
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, *want, got)
	got.Stage("dashboards").Row("a").Points = 8
	require.Len(t, got.Stages, 1)
	require.Len(t, got.Stages[0].Rows, 4)
	require.Error(t, WriteJSON(filepath.Join(file, "below"), want))
}

// TestWorst: a line a function, by the kind of values and the shape where it is slowest beside a peer,
// of the least times; a function that the peer has not is none.
func TestWorst(t *testing.T) {
	var r Result
	s := r.Stage("functions")
	s.Worst = true
	s.Compare(VictoriaMetrics, "promwarp", "VM ×")
	for name, ms := range map[string][2]int{
		WorstName("deriv", "5m", "bits"): {10, 90}, WorstName("deriv", "5m", "cents"): {20, 60}, WorstName("deriv", "1h", "bits"): {10, 200},
		WorstName("ours", "5m", "bits"): {10, 0},
	} {
		row := s.Row(name)
		for i, contender := range []string{"promwarp", VictoriaMetrics} {
			if d := time.Duration(ms[i]) * time.Millisecond; d > 0 {
				row.Costs[contender] = Cost{Timing: NewTiming([]time.Duration{d, 3 * d})}
			}
		}
	}
	slices.SortFunc(s.Rows, func(a, b *Row) int { return strings.Compare(b.Name, a.Name) })
	require.Equal(t, `| function | 5m × | 1h × | worst | promwarp ms | VictoriaMetrics ms | × |  |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| `+"`deriv`"+` | 3.00 | 20.0 | 5m, cents | 20.0 | 60.0 | 3.00 | under 4.00 |
`, r.Tables()[0].Markdown())
}

// TestWriteFigures: what was measured stands between the marks of a page, with its commit and machine,
// and nothing else of the page changes.
func TestWriteFigures(t *testing.T) {
	r := example()
	s := r.Stage("exporters")
	s.Hours = 720
	s.Contend(Prometheus, Promwarp)
	for name, ms := range map[string]float64{"node: a": 10, "node: b": 30, "slo: a": 500} {
		s.Row(name).Costs = map[string]Cost{Prometheus: {Timing: Timing{Median: ms}}, Promwarp: {Timing: Timing{Median: ms / 10}}}
	}
	slices.SortFunc(s.Rows, func(a, b *Row) int { return strings.Compare(a.Name, b.Name) })
	s.PeakRSS["promwarp"] = 7 << 20
	r.Stage("first").Compare(Prometheus, "promwarp second", "second ×")
	for _, name := range []string{Prometheus, "promwarp second"} {
		r.Stage("first").Row("a").Costs[name] = Cost{Timing: Timing{Median: 10}}
	}
	require.Empty(t, r.Stages[0].dashboards().Rows, "its queries are of no dashboard")
	require.Contains(t, r.Tables()[3].Markdown(), "| `node` |  | 0 | 40.0 | 4.0 |")

	file := filepath.Join(t.TempDir(), "README.md")
	require.NoError(t, os.WriteFile(file, []byte("above\n"), 0o600))
	require.ErrorContains(t, r.WriteFigures(file), "does not say which commit")
	r.Setup.Commit = "abc"
	require.ErrorContains(t, r.WriteFigures(file), "has no lines")
	require.NoError(t, os.WriteFile(file, []byte("above\n"+figuresBegin+"old\n"+figuresEnd+"below\n"), 0o600))
	for range 2 {
		require.NoError(t, r.WriteFigures(file))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), "above\n"+figuresBegin+"| measured | result |\n"), "%s", text)
	require.True(t, strings.HasSuffix(string(text), "\n"+figuresEnd+"below\n"), "%s", text)
	require.NotContains(t, string(text), "old")
	require.NotContains(t, string(text), "promwarp second", "the page has figures of two stages")
	for _, want := range []string{
		"3 queries over 24 h, 0.0 M samples: Prometheus over promwarp repeated | 7.37× on average, 1.00× at least, 40.0× at most", "| dashboard `node` over 30 days, panel after panel | Prometheus 40.0 ms, promwarp repeated 4.0 ms |",
		"Measured at abc on 2 cores, A", ": promwarp 7 MiB.\n",
	} {
		require.Contains(t, string(text), want)
	}
}
