package render

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

func TestTables(t *testing.T) {
	h := []compare.Histogram{{Count: 2, Sum: 3}}
	l := labels.FromStrings("a", "b")
	points := func(values ...float64) (all []promql.FPoint) {
		for _, v := range values {
			all = append(all, promql.FPoint{F: v})
		}
		return all
	}
	for name, c := range map[string]struct {
		of   parser.ValueType
		row  *compare.Series
		want string
	}{
		"scalar":     {"scalar", &compare.Series{Floats: points(2)}, "2\n"},
		"nothing":    {"vector", nil, "(no series)\n"},
		"vector":     {"vector", &compare.Series{Labels: l, Floats: points(1.5)}, "SERIES   VALUE\n{a=\"b\"}  1.5\n"},
		"a name":     {"vector", &compare.Series{Labels: labels.FromStrings("__name__", "m"), Floats: points(1.5)}, "SERIES  VALUE\nm       1.5\n"},
		"histogram":  {"vector", &compare.Series{Labels: l, Histograms: h}, "SERIES   VALUE\n{a=\"b\"}  {count:2, sum:3}\n"},
		"histograms": {"matrix", &compare.Series{Labels: l, Histograms: h}, "SERIES   POINTS  FIRST             MIN  MAX  LAST\n{a=\"b\"}  1       {count:2, sum:3}            {count:2, sum:3}\n"},
		"range":      {"matrix", &compare.Series{Floats: points(math.NaN(), 1e20, -2.5)}, "SERIES  POINTS  FIRST  MIN   MAX    LAST\n{}      3       NaN    -2.5  1e+20  -2.5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			a := NewAnswer(&b, 0)
			if c.row != nil {
				require.NoError(t, a.Add(c.of, *c.row))
			}
			require.NoError(t, a.Close())
			require.Equal(t, c.want, b.String())
		})
	}
}

// TestLongTable: rows of a long table are printed as they come.
func TestLongTable(t *testing.T) {
	var b bytes.Buffer
	a := NewAnswer(&b, 0)
	add := func(i string) {
		require.NoError(t, a.Add("vector", compare.Series{Labels: labels.FromStrings("i", i), Floats: make([]promql.FPoint, 1)}))
	}
	for i := range mostHeld - 1 { // the title is one, too
		require.Zero(t, b.Len())
		add(fmt.Sprintf("%04d", i))
	}
	require.Equal(t, mostHeld, strings.Count(b.String(), "\n"))
	add("longer than those")
	require.Len(t, a.rows, 1)
	require.NoError(t, a.Close())
	require.True(t, strings.HasPrefix(b.String(), "SERIES      VALUE\n{i=\"0000\"}  0\n"), b.String()[:60])
	require.True(t, strings.HasSuffix(b.String(), "{i=\"4094\"}  0\n{i=\"longer than those\"}  0\n"))
}

// TestNarrow: tables and charts fit a narrow terminal.
func TestNarrow(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	s := compare.Series{Labels: labels.FromStrings("__name__", "m", "instance", strings.Repeat("µ", 200))}
	for i := range 100 {
		s.Floats = append(s.Floats, promql.FPoint{T: (start.Unix() + int64(i)) * 1000, F: float64(i)})
	}
	var table, chart bytes.Buffer
	a := NewAnswer(&table, 50)
	require.NoError(t, a.Add("matrix", s))
	require.NoError(t, a.Close())
	var drawn Chart
	drawn.Add(s)
	require.NoError(t, drawn.Draw(&chart, Range{start, start.Add(99 * time.Second), time.Second}, 50, false))
	for _, text := range []string{table.String(), chart.String()} {
		for l := range strings.Lines(text) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(l, " \n")), 50, text)
		}
	}
	require.Contains(t, table.String(), "…  100     0")
	require.Contains(t, chart.String(), "╭")
}

func TestChart(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	r := Range{start, start.Add(time.Minute), 10 * time.Second}
	var c Chart
	for i := range mostLines + 2 {
		c.Add(compare.Series{Labels: labels.FromStrings("i", fmt.Sprint(i)), Floats: []promql.FPoint{
			{T: start.UnixMilli(), F: float64(i)}, {T: start.UnixMilli() + 10_000, F: math.Inf(1)}, {T: start.UnixMilli() + 60_000, F: 10},
		}})
	}
	require.Equal(t, "[0 NaN NaN NaN NaN NaN 10]", fmt.Sprint(line(c.drawn[0].Floats, r)))
	var b bytes.Buffer
	require.NoError(t, c.Draw(&b, r, 80, true))
	require.Contains(t, b.String(), `{i="7"}`)
	require.NotContains(t, b.String(), `{i="8"}`)
	require.Contains(t, b.String(), "2 more series are not drawn")
	b.Reset()
	require.NoError(t, c.Draw(&b, Range{}, 80, false))
	require.Contains(t, b.String(), "22:14", "over what it covers")
	b.Reset()
	require.NoError(t, new(Chart).Draw(&b, Range{}, 80, false))
	require.Equal(t, "(no values to draw)\n", b.String())
}
