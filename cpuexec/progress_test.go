package cpuexec

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/progress"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// TestTold: whoever looks at a query is told of every sample that a window function was evaluated over.
func TestTold(t *testing.T) {
	const samples = 600
	b := selection.NewBuilder(0)
	for i, s := range []int{2, 8, 10} { // without gaps and stale markers
		b.Series(labels.FromStrings("__name__", "m", "s", fmt.Sprint(i)))
		partOf(b, t, s, 0, samples)
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	var told progress.Request
	_, err = New(Options{Workers: 2}).Run(progress.With(t.Context(), &told), Job{
		Node: &plan.Window{Scan: &plan.Scan{}, Width: 300_000, Func: window.Named("sum_over_time")},
		Grid: plan.NewGrid(0, samples*15_000, 60_000),
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	})
	require.NoError(t, err)
	require.EqualValues(t, 3*samples, told.Evaluated())
}
