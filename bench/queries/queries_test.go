package queries

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

func TestAll(t *testing.T) {
	require.GreaterOrEqual(t, len(All), 30)
	names, exprs := map[string]bool{}, map[string]bool{}
	p := parser.NewParser(parser.Options{})
	for _, q := range All {
		require.False(t, names[q.Name], q.Name)
		require.False(t, exprs[q.Expr], q.Expr)
		names[q.Name], exprs[q.Expr] = true, true
		_, err := p.ParseExpr(q.Expr)
		require.NoError(t, err, q.Name)
		require.LessOrEqual(t, q.Range/q.Step, time.Duration(11_000), q.Name) // Prometheus answers no more points
	}
}

func TestForm(t *testing.T) {
	q := Query{"n", "up", 6 * time.Hour, 15 * time.Second}
	end := time.UnixMilli(1_700_000_000_500)
	form := q.Form(end, 24*time.Hour)
	require.Equal(t, "end=1700000000.5&query=up&start=1699978400.5&step=15", form.Encode())
	require.Equal(t, "1699996400.5", q.Form(end, time.Hour).Get("start"), "cut to the data")
}
