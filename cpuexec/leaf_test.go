package cpuexec

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// elsewhere is an accelerator that computes windows with a function.
type elsewhere func(l *Leaf) (reason string, err error)

func (f elsewhere) Aggregates(*plan.Aggregate) bool { return false }
func (f elsewhere) Takes(plan.Node) bool            { return true }
func (f elsewhere) OnCores(*Leaf, time.Duration)    {}

func (f elsewhere) Evaluate(_ context.Context, l *Leaf) (string, error) { return f(l) }

// TestTakeRows: rows are taken in the order in which they come, the cores evaluate
// those that do not, and a panic is raised where the leaf was offered.
func TestTakeRows(t *testing.T) {
	b := selection.NewBuilder(0)
	for i := range 3 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		var ts []int64
		var vs []float64
		for k := range 12 {
			ts, vs = append(ts, int64(k)*15_000), append(vs, 1)
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[11], encode(t, chunkenc.EncXOR, nil, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	w := &plan.Window{Scan: &plan.Scan{Text: "m"}, Func: plan.Windows["count_over_time"], Width: 60_000, Text: "count_over_time(m)"}
	run := func(f elsewhere) (*plan.Matrix, error) {
		return New(Options{}).Run(t.Context(), Job{
			Node: w, Grid: plan.Grid{Start: 60_000, Interval: 60_000, Steps: 2}, Accelerator: f,
			Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
				return sel, nil, nil
			},
		})
	}
	rows := Rows{
		Values: [][]float64{{1, 2, 3, 4}}, Each: 2, Present: []uint64{3, 2},
		Counts: []kernels.SeriesCounts{{Points: 2, Most: 2, Last: 2}, {Points: 1, Most: 4, Last: 4}}, All: []int64{1, 6}, Fresh: []int64{1, 5},
	}
	m, err := run(func(l *Leaf) (string, error) { return "enough", l.TakeRows(rows) })
	require.NoError(t, err)
	require.Len(t, m.Rows, 3)
	require.Equal(t, []float64{1, 2}, m.Rows[0].Values)
	require.Equal(t, []float64{4}, m.Rows[1].Values)
	require.Equal(t, []plan.Run{{First: 1, Len: 1}}, m.Rows[1].Runs)
	require.Equal(t, []float64{4, 4}, m.Rows[2].Values, "the cores'")
	require.Equal(t, []int64{1 + 4, 6 + 4}, m.SamplesAtStep)
	rows.Values[0] = rows.Values[0][:3:3]
	require.Panics(t, func() {
		_, _ = run(func(l *Leaf) (string, error) {
			failed := make(chan error)
			go func() { failed <- l.TakeRows(rows) }()
			return "", <-failed
		})
	})
}
