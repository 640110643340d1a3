package comparison

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
)

// answers answers with one value after the other, the last again and again. An error is a value's.
func answers(values ...any) Side {
	return func(context.Context) (*client.Answer, error) {
		v := values[0]
		if len(values) > 1 {
			values = values[1:]
		}
		if err, failed := v.(error); failed {
			return nil, err
		}
		return &client.Answer{Data: json.RawMessage(`{"resultType":"scalar","result":[1,"` + v.(string) + `"]}`), Took: time.Millisecond}, nil
	}
}

func TestMeasure(t *testing.T) {
	refused, otherwise := &client.Refused{Status: 400, Text: "no"}, &client.Refused{Status: 422, Text: "never"}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		prometheus, promwarp Side
		want                 Verdict
		detail               string
	}{
		"the same":                    {answers("1"), answers("1"), Same, ""},
		"another value":               {answers("1"), answers("2"), Different, "2 at 1 in promwarp, 1 at 1 in Prometheus"},
		"another value later":         {answers("1"), answers("1", "2"), Different, "2 at 1"},
		"samples that came meanwhile": {answers("1", "1", "2"), answers("2"), Same, ""},
		"samples that keep coming":    {answers("1", "2", "3", "4", "5", "6"), answers("0"), NotCompared, "differently each time"},
		"both refuse":                 {answers(refused), answers(refused), Same, "both refuse: no"},
		"both refuse differently":     {answers(refused), answers(otherwise), Different, "promwarp refuses: never"},
		"promwarp fails":              {answers("1"), answers(broken), Different, "promwarp: broken"},
		"promwarp fails later":        {answers("1"), answers("1", broken), Different, "promwarp: broken"},
		"Prometheus fails":            {answers(broken), answers("1"), NotCompared, "Prometheus: broken"},
		"both fail":                   {answers(broken), answers(broken), NotCompared, "Prometheus: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			row, err := Measure(t.Context(), c.prometheus, c.promwarp, Rounds{2, 2})
			require.NoError(t, err)
			require.Equal(t, c.want, row.Verdict)
			require.Contains(t, row.Detail, c.detail)
			require.Equal(t, c.detail == "", row.Detail == "")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Measure(ctx, answers(broken), answers(broken), Rounds{1, 1})
	require.ErrorIs(t, err, context.Canceled)
}

func TestReport(t *testing.T) {
	rows := []Row{
		{Query: "sum(\n  m)", Prometheus: 40, First: 10, Repeated: 1, Verdict: Same},
		{Query: "m", Prometheus: 10, First: 10, Repeated: 1, Verdict: Different, Detail: "a bit"},
		{Query: "n", Verdict: NotCompared, Detail: "Prometheus: timeout"},
		{Query: "o", Prometheus: 10, First: 5, Repeated: 0.1, Verdict: Same, Remembered: true},
	}
	var b bytes.Buffer
	require.NoError(t, Report(&b, rows, 80, false))
	Summary(&b, rows, false)
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
	empty := func(context.Context) (*client.Answer, error) {
		return &client.Answer{Data: json.RawMessage(`{"resultType":"matrix","result":[]}`), Took: time.Millisecond}, nil
	}
	row, err := Measure(t.Context(), empty, empty, Rounds{1, 1})
	require.NoError(t, err)
	require.True(t, row.Empty)
	full, err := Measure(t.Context(), answers("1"), answers("1"), Rounds{1, 1})
	require.NoError(t, err)
	require.False(t, full.Empty)
	var b bytes.Buffer
	Summary(&b, []Row{row, {Prometheus: 1, First: 20, Repeated: 0.5, Verdict: Same}}, false)
	require.Equal(t, `
2 of 2 answers are the same to the bit.
1 of them are empty, which says little: --start and --end set the time that is asked for.
promwarp is 0.2× as fast at first and 1.4× when asked again (geometric means).
Prometheus takes less than 10 ms for each of them: promwarp is for queries that take longer.
`, b.String())
}
