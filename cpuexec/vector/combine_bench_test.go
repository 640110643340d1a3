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
	binary := func(op string, asBool bool) plan.Node {
		return &plan.Binary{Func: Named(op), Matching: on, Bool: asBool}
	}
	for name, n := range map[string]plan.Node{
		"times": binary("*", false), "modulo": binary("%", false), "greater": binary(">", false), "greater bool": binary(">", true),
		"and": &plan.Set{Op: plan.And, Matching: on}, "unless": &plan.Set{Op: plan.Unless, Matching: on},
		"scalar": &plan.StepMap{Func: Named("/")},
	} {
		b.Run(name, func(b *testing.B) {
			q := operator.NewQuery(context.Background(), plan.Grid{Interval: 1, Steps: steps}, runtime.GOMAXPROCS(0))
			of := func(rows []plan.Row) operator.Operator {
				return &Stream{Query: q, Of: &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) { return rows, nil }}}
			}
			by := &plan.Aggregate{Func: aggregate.Named("sum"), Grouping: []string{"version"}}
			for b.Loop() {
				inputs := []operator.Operator{of(lhs), of(rhs)}
				if name == "scalar" {
					inputs[1] = of(rhs[:1])
				}
				require.NoError(b, operator.Drive(&Stream{Query: q, Of: NewCombined(q, n, inputs)}, func(s *operator.Series) operator.Sink {
					return aggregate.NewAdder(by, q, s, false)
				}))
				b.SetBytes(8 * series * steps)
			}
		})
	}
}
