package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/report"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-stages", "1, gzip:1,jitter:1,prometheus:1"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []stage{{"", 1}, {"gzip", 1}, {"jitter", 1}, {"prometheus", 1}}, o.stages)
	require.Equal(t, "1 gzip:1", o.stages[0].String()+" "+o.stages[1].String())
	for says, args := range map[string][]string{
		"no number of cores":      {"-stages", "0"},
		"\"\" is no number":       {},
		"there is no \"zstd\"":    {"-stages", "zstd:1"},
		"must be at least 1":      {"-stages", "1", "-series", "0"},
		"missing closing":         {"-stages", "1", "-queries", "("},
		"unexpected argument":     {"-stages", "1", "now"},
		"from 1 to":               {"-stages", "100000"},
		"flag provided but not d": {"-fast"},
	} {
		_, err := parse(args, io.Discard)
		require.ErrorContains(t, err, says)
	}
}

// Answers for parts of a range make that for all of it, and warnings that say over which range
// are told apart by their kind.
func TestJoin(t *testing.T) {
	got := join([]*answer.Matrix{
		{Series: map[string][]answer.Point{"a": {{T: 1, V: 1}}, "b": {{T: 1, V: 5}}}, Notices: []string{"x, from buckets 1", "y"}},
		{Series: map[string][]answer.Point{"a": {{T: 2, V: 2}}}, Notices: []string{"x, from buckets 2"}},
	})
	require.Equal(t, map[string][]answer.Point{"a": {{T: 1, V: 1}, {T: 2, V: 2}}, "b": {{T: 1, V: 5}}}, got.Series)
	require.Equal(t, []string{"x", "y"}, kinds(got.Notices))
}

// example has VictoriaMetrics take 40 and 20 ms where promwarp takes 10 and 4 on 1 and 4 cores.
func example() *result {
	r := &result{Setup: setup{Processor: "A", Cores: 4}, Queries: map[string]described{}, Peaks: map[string]int64{"promwarp on 4": 7 << 20}}
	put := func(query, peer string, cores int, variant string, ms float64) {
		r.put(measurement{key{query, peer, cores, variant}, report.Timing{Median: ms}})
	}
	for _, q := range []string{"red-rate", "wide-gauge", "one-group"} {
		put(q, promwarp, 1, "", 10)
		put(q, promwarp, 4, "", 4)
		put(q, victoriaMetrics, 1, "", 40)
		put(q, victoriaMetrics, 4, "", 20)
	}
	put("wide-gauge", victoriaMetrics, 4, "", 5) // measured again
	put("red-rate", prometheus, 4, "", 400)
	put("red-rate", promwarp, 4, "shared", 4)
	put("red-rate", promwarp, 4, "own", 6)
	put("half-a-job", promwarp, 4, "", 10)
	put("half-a-job", promwarp, 4, "gzip", 13)
	put("half-a-job", victoriaMetrics, 4, "gzip", 39)
	return r
}

func TestTables(t *testing.T) {
	var b strings.Builder
	require.NoError(t, example().tables(&b))
	for _, want := range []string{
		"| 1 | 2 | 10.0 | 1.00 | 40.0 | 1.00 | 4.00× | 4.00× (red-rate) |  |  | 0 | 0 |\n",
		"| 4 | 2 | 4.0 | 0.62 | 10.0 | 1.00 | 2.50× | 1.25× (wide-gauge) | 100× of 1 | 100× (red-rate) | 7 | 0 |\n",
		"- promwarp: geometric mean 2.50× of 2 queries",
		"- promwarp, one-group, `sum(rate(http_requests_total[5m]))`: 2.50×\n",
		"| `wide-gauge` | 0 | 10.0 | 4.0 | 40.0 | 5.0 | 1.25× |\n",
		"| `half-a-job` | 0 | 4 | 10.0 | 13.0 | 1.30× |  | 39.0 |  |  | 3.00× |  |\n",
		"4 cores: geometric mean 6.0 ms, shared times 4.0 ms; 1.50× times as long",
	} {
		require.Contains(t, b.String(), want)
	}
}

// What an earlier run left in the folder is gone on with, and other data refused.
func TestResume(t *testing.T) {
	b := &bench{options: options{dir: t.TempDir(), series: 10, hours: 2, age: time.Hour}, print: io.Discard}
	require.NoError(t, b.resume())
	end := b.data.End
	b.data.Fed, b.result = true, *example()
	require.NoError(t, b.write())

	b.begin, b.age = time.Now(), 2*time.Hour
	require.NoError(t, b.resume())
	require.True(t, b.data.Fed)
	require.Equal(t, end, b.data.End)
	require.InDelta(t, 20, b.result.get(key{"red-rate", victoriaMetrics, 4, ""}), 0)
	b.series = 11
	require.ErrorContains(t, b.resume(), "has other data: 10 series")
}

// The whole program, with real servers, at a tiny size.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts servers")
	}
	dir := t.TempDir()
	var out strings.Builder
	err := run(t.Context(), []string{"-dir", dir, "-series", "340", "-hours", "3", "-rounds", "1", "-queries", "^(red-rate|half-a-job)$",
		"-stages", "1,gzip:1,jitter:1,prometheus:1", "-markdown", filepath.Join(dir, "r.md")}, &out)
	require.NoError(t, err, out.String())
	require.NotContains(t, out.String(), "WRONG")
	var r result
	require.NoError(t, readJSON(filepath.Join(dir, resultFile), &r))
	for _, k := range []key{{"red-rate", promwarp, 1, ""}, {"red-rate", victoriaMetrics, 1, ""}, {"half-a-job", promwarp, 1, "gzip"}, {"red-rate", promwarp, 1, "own"}, {"red-rate", prometheus, 1, ""}} {
		require.Positive(t, r.get(k), k)
	}
	require.FileExists(t, filepath.Join(dir, "r.md"))
}
