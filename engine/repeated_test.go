package engine

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An aggregation that a query has several times on the same steps is evaluated once, unless
// Prometheus's engine says something of its position.
func TestRepeated(t *testing.T) {
	st := randomStorage(t, rand.New(rand.NewPCG(1, 1)))
	c := newComparison(false, 2)
	series := func(query string) int {
		require.NoError(t, c.compare(t, st, question{query: query, start: 600_000, end: 3_000_000, step: 30_000}))
		x, err := c.ours.Explain(t.Context(), st, nil, query, time.UnixMilli(600_000), time.UnixMilli(3_000_000), 30*time.Second, true)
		require.NoError(t, err)
		require.NotNil(t, x.Root.Work, query)
		return x.Root.Work.Series
	}
	const a, b, warned = "sum by (job) (rate(reqs_total[5m]))", "sum by (job) (rate(errs_total[5m]))", "sum(rate(temp[5m]))"
	for _, of := range []struct {
		query     string
		evaluated []string
	}{
		{"A / (A + B)", []string{a, b}},
		{"(A + B) / (A + B)", []string{a, b}},
		{"max(A) - min(A)", []string{a}},
		{"max(A) - max(A) + sum(A)", []string{a, a}},
		{"sum_over_time((A - A)[10m:1m]) - A", []string{a, a}},
		{"A or B", []string{a, b}},
		{"W - W", []string{warned, warned}},
	} {
		query := strings.NewReplacer("A", a, "B", b, "W", warned).Replace(of.query)
		want := 0
		for _, alone := range of.evaluated {
			want += series(alone)
		}
		require.Equal(t, want, series(query), of.query)
	}
}
