package vector

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// BenchmarkCombine measures operators on 3000 series of 1440 steps by
// themselves: matching the series, computing the values and adding them to ten
// groups.
func BenchmarkCombine(b *testing.B) {
	const series, steps = 3000, 1440
	rows := func(name string) []plan.Row {
		out := make([]plan.Row, series)
		for i := range out {
			out[i] = plan.Row{
				Labels: labels.FromStrings("__name__", name, "instance", fmt.Sprintf("i-%04d", i), "version", fmt.Sprint("v", i%10)),
				Values: make([]float64, steps), Runs: []plan.Run{{Len: steps}},
			}
			for k := range out[i].Values {
				out[i].Values[k] = float64(i*k%1000) / 3
			}
		}
		return out
	}
	lhs, rhs := rows("a"), rows("b")
	on := &parser.VectorMatching{On: true, MatchingLabels: []string{"instance"}, Card: parser.CardManyToOne, Include: []string{"version"}}
	binary := func(op string, asBool bool) func(q *operator.Query) (plan.Node, Combination, error) {
		n := &plan.Binary{Func: Named(op), Matching: on, Bool: asBool}
		return func(q *operator.Query) (plan.Node, Combination, error) {
			m, err := match(q, n, lhs, rhs)
			return n, m, err
		}
	}
	set := func(op plan.SetOp) func(q *operator.Query) (plan.Node, Combination, error) {
		n := &plan.Set{Op: op, Matching: on}
		return func(q *operator.Query) (plan.Node, Combination, error) {
			return n, setOf(n, lhs, rhs, steps), nil
		}
	}
	for name, combine := range map[string]func(q *operator.Query) (plan.Node, Combination, error){
		"times": binary("*", false), "modulo": binary("%", false), "greater": binary(">", false), "greater bool": binary(">", true),
		"and": set(plan.And), "unless": set(plan.Unless),
		"scalar": func(q *operator.Query) (plan.Node, Combination, error) {
			n := &plan.StepMap{Func: Named("/")}
			s, err := stepMap(q, n, [][]plan.Row{lhs, rhs[:1]})
			return n, s, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			q := operator.NewQuery(context.Background(), plan.Grid{Interval: 1, Steps: steps}, runtime.GOMAXPROCS(0))
			for b.Loop() {
				n, c, err := combine(q)
				require.NoError(b, err)
				by := &plan.Aggregate{Func: aggregate.Named("sum"), Grouping: []string{"version"}}
				a := aggregate.NewAdder(by, q, aggregate.InputOf(by, c.Size(), c.Labels), false)
				_, err = Fill(q, n, c, nil, a)
				require.NoError(b, err)
				b.SetBytes(8 * series * steps)
			}
		})
	}
}
