package render

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

func TestTables(t *testing.T) {
	h := &model.SampleHistogram{Count: 2, Sum: 3}
	m := model.Metric{"a": "b"}
	for name, c := range map[string]struct {
		value model.Value
		want  string
	}{
		"scalar":     {&model.Scalar{Value: 2}, "2\n"},
		"string":     {&model.String{Value: "x"}, "x\n"},
		"nothing":    {model.Vector{}, "(no series)\n"},
		"vector":     {model.Vector{{Metric: m, Value: 1.5}}, "SERIES   VALUE\n{a=\"b\"}  1.5\n"},
		"histogram":  {model.Vector{{Metric: m, Histogram: h}}, "SERIES   VALUE\n{a=\"b\"}  {count:2, sum:3}\n"},
		"histograms": {model.Matrix{{Metric: m, Histograms: []model.SampleHistogramPair{{Histogram: h}}}}, "SERIES   POINTS  FIRST             MIN  MAX  LAST\n{a=\"b\"}  1       {count:2, sum:3}            {count:2, sum:3}\n"},
		"range":      {model.Matrix{{Values: []model.SamplePair{{Value: model.SampleValue(math.NaN())}, {Value: 1e20}, {Value: -2.5}}}}, "SERIES  POINTS  FIRST  MIN   MAX    LAST\n{}      3       NaN    -2.5  1e+20  -2.5\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, Answer(&b, c.value, 0))
			require.Equal(t, c.want, b.String())
		})
	}
}

// TestNarrow: tables and charts fit a narrow terminal.
func TestNarrow(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	s := &model.SampleStream{Metric: model.Metric{"__name__": "m", "instance": model.LabelValue(strings.Repeat("µ", 200))}}
	for i := range 100 {
		s.Values = append(s.Values, model.SamplePair{Timestamp: model.TimeFromUnix(start.Unix() + int64(i)), Value: model.SampleValue(i)})
	}
	var table, chart bytes.Buffer
	require.NoError(t, Answer(&table, model.Matrix{s}, 50))
	require.NoError(t, Chart(&chart, model.Matrix{s}, Range{start, start.Add(99 * time.Second), time.Second}, 50, false))
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
	var m model.Matrix
	for i := range mostLines + 2 {
		m = append(m, &model.SampleStream{Metric: model.Metric{"i": model.LabelValue(fmt.Sprint(i))}, Values: []model.SamplePair{
			{Timestamp: model.TimeFromUnix(start.Unix()), Value: model.SampleValue(i)},
			{Timestamp: model.TimeFromUnix(start.Unix() + 10), Value: model.SampleValue(math.Inf(1))},
			{Timestamp: model.TimeFromUnix(start.Unix() + 60), Value: 10},
		}})
	}
	require.Equal(t, "[0 NaN NaN NaN NaN NaN 10]", fmt.Sprint(line(m[0].Values, r)))
	var b bytes.Buffer
	require.NoError(t, Chart(&b, m, r, 80, true))
	require.Contains(t, b.String(), `{i="7"}`)
	require.NotContains(t, b.String(), `{i="8"}`)
	require.Contains(t, b.String(), "2 more series are not drawn")
	b.Reset()
	require.NoError(t, Chart(&b, model.Matrix{{}}, r, 80, false))
	require.Equal(t, "(no values to draw)\n", b.String())
}
