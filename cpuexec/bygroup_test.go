package cpuexec

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// TestByGroup: answers, statistics and errors are the same whether groups are left to
// cores or batches are added by all of them.
func TestByGroup(t *testing.T) {
	const series, samples = 60, 600
	b := selection.NewBuilder(0)
	for s := range series {
		b.Series(labels.FromStrings("__name__", "m", "few", fmt.Sprint(s%4), "s", fmt.Sprintf("%02d", s)))
		partOf(b, t, s, s*7, samples)
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	require.Greater(t, int(sel.NumSamples()), operator.InlineSamples)
	grid := plan.NewGrid(0, samples*15_000, 60_000)
	for _, f := range aggregate.Functions() {
		op, name := &f.AggregateFunc, f.Name
		if !op.Adds() {
			continue
		}
		for _, most := range []int{0, 1000} { // samples
			var want string
			for _, workers := range []int{1, 2, 4, 16} {
				x := New(Options{Workers: workers})
				m, err := x.Run(t.Context(), Job{
					Node: &plan.Aggregate{
						Func: op, Grouping: []string{"few"},
						Input: &plan.Window{Scan: &plan.Scan{}, Width: 300_000, Func: window.Named("last_over_time")},
					},
					Grid: grid, MaxSamples: most,
					Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
						return sel, nil, nil
					},
				})
				got := fmt.Sprint(err)
				if most > 0 {
					require.ErrorIs(t, err, promql.ErrTooManySamples("query execution"))
				} else {
					require.NoError(t, err)
					got = fmt.Sprint(m.Peak, m.SamplesAtStep, m.NewSamplesAtStep)
					for _, row := range m.Rows {
						got += fmt.Sprint(row.Labels, row.Runs)
						for _, v := range row.Values {
							got += fmt.Sprintf(" %x", math.Float64bits(v))
						}
					}
					require.Len(t, m.Rows, 4)
					m.Release()
				}
				if workers == 1 {
					want = got
				}
				require.Equal(t, want, got, "%s by %d", name, workers)
			}
		}
	}
}
