package compare

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answers answers with one value after the other, the last again and again. An error is a value's.
func answers(values ...any) Side {
	return func(context.Context) (*Answer, error) {
		v := values[0]
		if len(values) > 1 {
			values = values[1:]
		}
		if err, failed := v.(error); failed {
			return nil, err
		}
		a, err := ParseData([]byte(`{"resultType":"scalar","result":[1,"` + v.(string) + `"]}`))
		a.Took = time.Millisecond
		return a, err
	}
}

func TestMeasure(t *testing.T) {
	refused, otherwise := &Refused{Status: 400, Text: "no"}, &Refused{Status: 422, Text: "never"}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		prometheus, promwarp Side
		want                 Verdict
		detail               string
	}{
		"the same":                    {answers("1"), answers("1"), Same, ""},
		"another value":               {answers("1"), answers("2"), Different, "value 2 instead of 1 at 1 of {}"},
		"another value later":         {answers("1"), answers("1", "2"), Different, "value 2"},
		"samples that came meanwhile": {answers("1", "1", "2"), answers("2"), Same, ""},
		"samples that keep coming":    {answers("1", "2", "3", "4", "5", "6"), answers("0"), Undecided, "differently each time"},
		"both refuse":                 {answers(refused), answers(refused), Same, "both refuse: no"},
		"both refuse differently":     {answers(refused), answers(otherwise), Different, "promwarp refuses: never"},
		"promwarp fails":              {answers("1"), answers(broken), Different, "promwarp: broken"},
		"promwarp fails later":        {answers("1"), answers("1", broken), Different, "promwarp: broken"},
		"Prometheus fails":            {answers(broken), answers("1"), NotCompared, "Prometheus: broken"},
		"both fail":                   {answers(broken), answers(broken), NotCompared, "Prometheus: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			row, err := Measure(t.Context(), c.prometheus, c.promwarp, Rounds{Prometheus: 2, Repeated: 2})
			require.NoError(t, err)
			require.Equal(t, c.want, row.Verdict)
			require.Contains(t, row.Detail, c.detail)
			require.Equal(t, c.detail == "", row.Detail == "")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Measure(ctx, answers(broken), answers(broken), Rounds{Prometheus: 1, Repeated: 1})
	require.ErrorIs(t, err, context.Canceled)
}
