package engine

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/planner"
)

// TestDefaultsAreAmple: what people write has at most a tenth of the selectors, and lists of at most a
// tenth of the items, that a request may have by default.
func TestDefaultsAreAmple(t *testing.T) {
	queries, _ := templateQueries(t)
	for _, of := range mixins(t) {
		queries = append(queries, of...)
	}
	require.Greater(t, len(queries), 1500)
	var most struct {
		selectors, matchers, labels int
		withSelectors, withList     string
	}
	for _, query := range queries {
		expr, err := parser.NewParser(promqltest.TestParserOpts).ParseExpr(query)
		require.NoError(t, err, query)
		selectors := 0
		list := func(length *int, n int) {
			if n > max(most.matchers, most.labels) {
				most.withList = query
			}
			*length = max(*length, n)
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			switch n := n.(type) {
			case *parser.VectorSelector:
				selectors++
				list(&most.matchers, len(n.LabelMatchers)) // its name is one of them
			case *parser.AggregateExpr:
				list(&most.labels, len(n.Grouping))
			case *parser.BinaryExpr:
				if m := n.VectorMatching; m != nil {
					list(&most.labels, max(len(m.MatchingLabels), len(m.Include)))
				}
			}
			return nil
		})
		if selectors > most.selectors {
			most.selectors, most.withSelectors = selectors, query
		}
	}
	// The limits count as the tree does.
	exact := planner.Limits{Selectors: most.selectors, Items: max(most.matchers, most.labels)}
	for _, query := range queries {
		require.NoError(t, exact.Check(query), query)
	}
	require.Error(t, planner.Limits{Selectors: most.selectors - 1}.Check(most.withSelectors))
	t.Logf("%d expressions; at most %d selectors, %d matchers with the name, %d labels", len(queries), most.selectors, most.matchers, most.labels)
	require.LessOrEqual(t, 10*most.selectors, planner.DefaultSelectors, most.withSelectors)
	require.LessOrEqual(t, 10*max(most.matchers, most.labels), planner.DefaultItems, most.withList)
}
