package main

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/cpuexec/window"
)

// TestFunctionQueries: queries parse, each has a name of its own, and no function of windows that needs
// no flag is left out.
func TestFunctionQueries(t *testing.T) {
	names, p := map[string]bool{}, parser.NewParser(parser.Options{})
	for _, q := range functionQueries() {
		require.False(t, names[q.Name], q.Name)
		names[q.Name] = true
		require.NotContains(t, q.Expr, "$")
		_, err := p.ParseExpr(q.Expr)
		require.NoError(t, err, q.Name)
	}
	for _, name := range window.Names() {
		if f := parser.Functions[name]; f != nil && !f.Experimental && f.ArgTypes[0] == parser.ValueTypeMatrix {
			require.True(t, names[report.WorstName(name, "instant 1d", "late_cents")], name)
		}
	}
	for _, name := range []string{"topk", "sum", "% 1000", "== of two", "unless", "ln", "rows of histogram_quantile"} {
		require.True(t, names[report.WorstName(name, "5m", "whole")], name)
	}
}
