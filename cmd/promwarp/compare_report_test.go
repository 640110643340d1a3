package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

func TestReport(t *testing.T) {
	rows := []compare.Row{
		{Query: "sum(\n  m)", Prometheus: 40, First: 10, Repeated: 1, Verdict: compare.Same},
		{Query: "m", Prometheus: 10, First: 10, Repeated: 1, Verdict: compare.Different, Detail: "a bit"},
		{Query: "n", Verdict: compare.NotCompared, Detail: "Prometheus: timeout"},
		{Query: "o", Prometheus: 10, First: 5, Repeated: 0.1, Verdict: compare.Same, Remembered: true},
	}
	var b bytes.Buffer
	require.NoError(t, reportComparison(&b, rows, 80, false))
	summarizeComparison(&b, rows, false)
	require.Equal(t, `PROMETHEUS  FIRST  REPEATED  SPEED-UP          ANSWER        QUERY
40.0        10.0   1.0       4.0×, 40.0×       same          sum( m)
10.0        10.0   1.0       1.0×, 10.0×       DIFFERENT     m
-           -      -         -, -              not compared  n
10.0        5.0    0.1       2.0×, remembered  same          o

DIFFERENT: m
  a bit

not compared: n
  Prometheus: timeout

2 of 4 answers are the same to the bit, 1 differ, 1 could not be compared.
promwarp is 2.8× as fast at first and 40.0× when asked again (geometric means).
Remembered results answer 1 of them when asked again: that time is no speed-up of evaluating. --cache.results-bytes=0 remembers none.
`, b.String())
}

// TestQuick: where answers are empty, or there was nothing to save, the summary says so.
func TestQuick(t *testing.T) {
	empty := func(context.Context) (*compare.Answer, error) {
		return &compare.Answer{Type: "matrix", Took: time.Millisecond}, nil
	}
	one := func(context.Context) (*compare.Answer, error) {
		return &compare.Answer{Type: "scalar", Series: make([]compare.Series, 1), Took: time.Millisecond}, nil
	}
	row, err := compare.Measure(t.Context(), empty, empty, compare.Rounds{Prometheus: 1, Repeated: 1})
	require.NoError(t, err)
	require.True(t, row.Empty)
	full, err := compare.Measure(t.Context(), one, one, compare.Rounds{Prometheus: 1, Repeated: 1})
	require.NoError(t, err)
	require.False(t, full.Empty)
	var b bytes.Buffer
	summarizeComparison(&b, []compare.Row{row, {Prometheus: 1, First: 20, Repeated: 0.5, Verdict: compare.Same}}, false)
	require.Equal(t, `
2 of 2 answers are the same to the bit.
1 of them are empty, which says little: --start and --end set the time that is asked for.
promwarp is 0.2× as fast at first and 1.4× when asked again (geometric means).
Prometheus takes less than 10 ms for each of them: promwarp is for queries that take longer.
`, b.String())
}
