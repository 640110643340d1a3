package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/report"
)

// table lines up contenders that answer 1, or what answers says, and notes who
// was asked.
func table(answers map[string]string) (f *field, asked *[]string) {
	asked = new([]string)
	f = &field{say: func(string) {}}
	for _, c := range []contender{
		{name: report.Prometheus, exact: true},
		{name: report.PromwarpFirst, exact: true, cold: true},
		{name: report.Promwarp, exact: true},
		{name: report.VictoriaMetrics},
	} {
		value, ok := answers[c.name]
		if !ok {
			value = "1"
		}
		c.ask = func(_ context.Context, _ url.Values, buf *bytes.Buffer) (answer.Answer, error) {
			*asked = append(*asked, c.name)
			buf.Reset()
			switch value {
			case "broken":
				return answer.Answer{}, errors.New("connection refused")
			case "error":
				buf.WriteString("too much")
				return answer.Answer{Code: 422, Body: buf.Bytes()}, nil
			}
			fmt.Fprintf(buf, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,%q]]}]}}`, value)
			return answer.Answer{Code: 200, Body: buf.Bytes(), Took: time.Millisecond}, nil
		}
		f.contenders = append(f.contenders, c)
	}
	return f, asked
}

func TestTrialTakesTurns(t *testing.T) {
	f, asked := table(nil)
	tr := trial{field: f}
	require.NoError(t, tr.run(t.Context(), options{rounds: 2, budget: time.Minute}, 1))
	want := []string{
		report.Prometheus, report.Promwarp, report.VictoriaMetrics, // warm-up
		report.PromwarpFirst, report.Promwarp, report.VictoriaMetrics, report.Prometheus,
		report.Promwarp, report.VictoriaMetrics, report.Prometheus, report.PromwarpFirst,
	}
	require.Equal(t, want, *asked)
	require.Nil(t, tr.row.Wrong)
	require.Nil(t, tr.row.Other)
	require.Equal(t, 1, tr.row.Points)
	require.Len(t, tr.row.Timings, 4)
	require.Equal(t, []float64{1, 1}, tr.row.Timings[report.Promwarp].All)
	require.Contains(t, tr.summary(), "promwarp first 1.0 ms")
}

func TestTrialKeepsToTheBudget(t *testing.T) {
	f, _ := table(nil)
	tr := trial{field: f}
	require.NoError(t, tr.run(t.Context(), options{rounds: 100, budget: -1}, 0))
	require.Len(t, tr.row.Timings[report.Prometheus].All, 1)
}

func TestTrialFindsDifferences(t *testing.T) {
	for _, who := range []string{report.PromwarpFirst, report.Promwarp} {
		f, _ := table(map[string]string{who: "2"})
		tr := trial{field: f}
		require.NoError(t, tr.run(t.Context(), options{rounds: 1}, 0))
		require.NotNil(t, tr.row.Wrong, who)
		require.Equal(t, who+": series {} is 2 at 1 instead of 1", tr.row.Wrong.First)
		require.Contains(t, tr.summary(), "DIFFERS")
	}
	f, _ := table(map[string]string{report.Promwarp: "1.0000000000000002", report.VictoriaMetrics: "2"})
	tr := trial{field: f}
	require.NoError(t, tr.run(t.Context(), options{rounds: 1}, 0))
	require.Nil(t, tr.row.Wrong)
	require.Equal(t, 1, tr.row.Other.Values)
	require.Len(t, tr.row.Timings, 4)
}

func TestTrialErrors(t *testing.T) {
	for _, who := range []string{report.Prometheus, report.PromwarpFirst, report.Promwarp} {
		for value, says := range map[string]string{"broken": "connection refused", "error": "too much"} {
			f, _ := table(map[string]string{who: value})
			tr := trial{field: f}
			err := tr.run(t.Context(), options{rounds: 1}, 0)
			require.ErrorContains(t, err, who+": ")
			require.ErrorContains(t, err, says)
		}
	}
	// One of VictoriaMetrics is a difference, and it is not asked again.
	f, asked := table(map[string]string{report.VictoriaMetrics: "error"})
	tr := trial{field: f}
	require.NoError(t, tr.run(t.Context(), options{rounds: 3, budget: time.Minute}, 0))
	require.Contains(t, tr.row.Other.First, "too much")
	require.NotContains(t, tr.row.Timings, report.VictoriaMetrics)
	require.Len(t, slices.DeleteFunc(*asked, func(s string) bool { return s != report.VictoriaMetrics }), 1)
}
