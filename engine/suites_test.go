package engine

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/plan"
)

// suiteTimes are those that the queries of suites are asked for, in ms: over a range,
// and at its end.
var suiteTimes = times{start: 600_000, end: 3_300_000, step: 60_000}

// TestTemplates runs the queries of a suite of templates, of which executors must take
// nearly all, as TestMixins does.
func TestTemplates(t *testing.T) {
	queries, load := templateQueries(t)
	st := loadedBlocks(t, load)
	c, delayed := newComparison(false, 2), newComparison(true, 2)
	var s suiteTally
	for _, query := range queries {
		s.add(t, c, delayed, st, "templates", query, suiteTimes)
	}
	s.require(t, c, delayed, len(queries), 0.97)
	requireInDoc(t, "../docs/coverage.md", "templates", s.table(), "TestTemplates")
}

// templateQueries are the queries of the templates, and the data that they are asked of.
func templateQueries(t *testing.T) (queries []string, load string) {
	t.Helper()
	text, err := os.ReadFile("testdata/suites/templates.yaml")
	require.NoError(t, err)
	var suite struct {
		Load      string
		Values    map[string][]string
		Templates []string
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &suite))
	for _, template := range suite.Templates {
		queries = append(queries, expandTemplate(template, suite.Values)...)
	}
	require.Greater(t, len(queries), 500)
	return queries, suite.Load
}

// expandTemplate replaces the names in braces in a template by each of their values.
func expandTemplate(template string, values map[string][]string) []string {
	name := templateName.FindString(template)
	if name == "" {
		return []string{template}
	}
	of, ok := values[strings.Trim(name, "{}")]
	if !ok {
		panic(template + ": unknown " + name)
	}
	var out []string
	for _, v := range of {
		out = append(out, expandTemplate(strings.Replace(template, name, v, 1), values)...)
	}
	return out
}

// A matcher's braces hold more than a name.
var templateName = regexp.MustCompile(`\{[a-z_]+\}`)

// TestScripts runs the queries of scripts, each of which loads data and asks what can
// be asked of it. What is indented after a line with load is data as Prometheus's own
// test scripts have it; every other line is a query.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/suites/*.script")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	c, delayed := newComparison(false, 2), newComparison(true, 2)
	var s suiteTally
	queries := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".script")
		var st *blocks
		load := ""
		for _, line := range strings.Split(string(text), "\n") {
			switch {
			case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "load "):
				load, st = line+"\n", nil
			case strings.HasPrefix(line, " "):
				load += line + "\n"
			default:
				if st == nil {
					st = loadedBlocks(t, load)
				}
				queries++
				s.add(t, c, delayed, st, name, line, suiteTimes)
			}
		}
	}
	require.Greater(t, queries, 300)
	s.require(t, c, delayed, queries, 0.95)
	requireInDoc(t, "../docs/coverage.md", "scripts", s.table(), "TestScripts")
}

// loadedBlocks makes a storage of data as Prometheus's own test scripts have it, which
// yields series in the order in which selections do.
func loadedBlocks(t *testing.T, load string) *blocks {
	st := promqltest.LoadedStorage(t, load)
	q, err := st.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	b := &blocks{chunks: make([][][]chunks.Meta, 1)}
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	for set.Next() {
		b.series = append(b.series, set.At().Labels())
		var samples []chunks.Sample
		for it := set.At().Iterator(nil); it.Next() == chunkenc.ValFloat; {
			ts, v := it.At()
			samples = append(samples, floatSample{t: ts, v: v})
		}
		var cs []chunks.Meta
		for part := range slices.Chunk(samples, 120) {
			c, err := chunks.ChunkFromSamples(part)
			require.NoError(t, err)
			cs = append(cs, c)
		}
		b.chunks[0] = append(b.chunks[0], cs)
	}
	require.NoError(t, set.Err())
	return b
}

// suiteTally counts the queries of a suite by how much of them executors take.
type suiteTally struct {
	tallies []tally
	left    map[string][]string // queries by the reason for which they are left
}

// add compares the answers to a query over a range, with and without delayed name removal, and at
// an instant, and counts by whether executors took it and why not.
func (s *suiteTally) add(t *testing.T, c, delayed *comparison, st storage.Queryable, name, query string, at times) {
	if n := len(s.tallies); n == 0 || s.tallies[n-1].name != name {
		s.tallies = append(s.tallies, tally{name: name})
	}
	ranged := question{query: query, start: at.start, end: at.end, step: at.step}
	failed := c.failed
	before, _ := c.taken()
	require.NoError(t, c.compare(t, st, ranged), query)
	failed = c.failed - failed
	require.NoError(t, c.compare(t, st, question{query: query, start: at.end, end: at.end}), query)
	took, _ := c.taken()
	require.NoError(t, delayed.compare(t, st, ranged), query)
	x, err := c.ours.Explain(t.Context(), Request{Storage: st, Query: query, Start: time.UnixMilli(at.start), End: time.UnixMilli(at.end), Step: time.Duration(at.step) * time.Millisecond}, failed == 0)
	require.NoError(t, err, query)
	share, reason := whole, "" // what is an error, Prometheus's engine finds
	switch {
	case x.Root.Idle:
		share = idle
	case x.Root.Executor == plan.OnPrometheus:
		share, reason = none, leftFor(x.Root)
	case failed == 0 && took != before+2:
		share, reason = none, "an executor has declined it after all, at an instant"
	}
	s.tallies[len(s.tallies)-1].of[share]++
	if share != none {
		return
	}
	if s.left == nil {
		s.left = map[string][]string{}
	}
	s.left[reason] = append(s.left[reason], query)
}

// require checks that executors take at least a share of the queries that read samples,
// and that answers mostly have series.
func (s *suiteTally) require(t *testing.T, c, delayed *comparison, queries int, least float64) {
	var sum tally
	for _, row := range s.tallies {
		for k, n := range row.of {
			sum.of[k] += n
		}
	}
	reads := sum.total() - sum.of[idle]
	taken := float64(sum.of[whole]) / float64(reads)
	t.Logf("%d queries, of which %d read samples, %.1f %% of these on executors; of their answers %d have series, %d are errors, %d undecided",
		queries, reads, 100*taken, c.answered, c.failed, c.undecided)
	later, without := delayed.taken()
	t.Logf("with delayed name removal %v on executors, %v not", later, without)
	require.GreaterOrEqual(t, later, least*float64(reads))
	for _, r := range slices.Sorted(maps.Keys(s.left)) {
		t.Logf("left: %s: %q", r, s.left[r])
	}
	require.GreaterOrEqual(t, taken, least)
	require.Greater(t, c.answered, 2*queries*3/4)
	require.Zero(t, c.undecided)
}

// table writes the table of docs/coverage.md.
func (s *suiteTally) table() string {
	var b strings.Builder
	b.WriteString("| | queries | read no samples | on executors | not |\n| --- | ---: | ---: | ---: | ---: |\n")
	sum := tally{name: "together"}
	for _, row := range s.tallies {
		for k, n := range row.of {
			sum.of[k] += n
		}
	}
	rows := s.tallies
	if len(rows) > 1 {
		rows = append(slices.Clone(rows), sum)
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", row.name, row.total(), row.of[idle], row.of[whole], row.of[none])
	}
	if len(s.left) == 0 {
		return b.String()
	}
	b.WriteString("\n| why the others are left to Prometheus's engine | queries | the shortest of them |\n| --- | ---: | --- |\n")
	reasons := slices.SortedFunc(maps.Keys(s.left), func(x, y string) int {
		if d := len(s.left[y]) - len(s.left[x]); d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	for _, r := range reasons {
		shortest := slices.MinFunc(s.left[r], func(x, y string) int { return len(x) - len(y) })
		shortest = strings.Join(strings.Fields(shortest), " ")
		if len(shortest) > 150 {
			shortest = shortest[:150] + " …"
		}
		shortest = strings.ReplaceAll(shortest, "|", `\|`)
		fmt.Fprintf(&b, "| %s | %d | `%s` |\n", r, len(s.left[r]), shortest)
	}
	return b.String()
}
