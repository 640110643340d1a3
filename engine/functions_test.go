package engine

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// TestFunctions: what reads a selector is told as Prometheus's engine hints at it.
func TestFunctions(t *testing.T) {
	for query, want := range map[string]string{
		"x":                                 "",
		"(x)":                               "",
		"sum by (a) (x)":                    "sum",
		"sum(rate(x[5m]))":                  "rate",
		"rate(x[5m:1m])":                    "rate",
		"max_over_time(rate(x[5m])[1h:1m])": "rate",
		"rate((x)[5m:])":                    "rate",
		"sum(x + 1)":                        "",
		"-x":                                "",
		"increase(x[5m] offset 1m)":         "increase",
	} {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
		require.NoError(t, err)
		got := functions(expr)
		for _, function := range got {
			require.Equal(t, want, function, query)
		}
		require.Equal(t, want != "", len(got) == 1, query)
	}
}
