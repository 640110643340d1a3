package cpuexec

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// windower is an accelerator that computes windows alone, with a function that may say
// why it declines the rest.
type windower func(consume func(Rows) error) (declined string, err error)

func (f windower) Aggregates(*plan.Aggregate) bool { return false }
func (f windower) Accepts(plan.Node) bool          { return true }
func (f windower) OnCores(*Leaf, time.Duration)    {}

func (f windower) Evaluate(_ context.Context, _ *Leaf, consume func(Rows) error) (o Outcome, err error) {
	o.Declined, err = f(consume)
	return o, err
}

// countedBy runs a count_over_time of two steps over three series whose windows f
// computes.
func countedBy(t *testing.T, f windower) (*plan.Matrix, error) {
	b := selection.NewBuilder(0)
	for i := range 3 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		var ts []int64
		var vs []float64
		for k := range 12 {
			ts, vs = append(ts, int64(k)*15_000), append(vs, 1)
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[11], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	w := &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "m"}}, Func: window.Named("count_over_time"), Width: 60_000, Origin: plan.Origin{Text: "count_over_time(m)"}}
	return New(Options{}).Run(t.Context(), Job{
		CountSamples: true,
		Node:         w, Grid: plan.Grid{Start: 60_000, Interval: 60_000, Steps: 2}, Accelerator: f,
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	})
}

// TestConsumeRows: rows are consumed in the order in which they come, the cores evaluate
// those that do not, and a panic is raised where the leaf was offered.
func TestConsumeRows(t *testing.T) {
	rows := Rows{
		Values: [][]float64{{1, 2, 3, 4}}, Each: 2, Present: []uint64{3, 2},
		Counts: []SeriesCounts{{Points: 2, Most: 2, Last: 2}, {Points: 1, Most: 4, Last: 4}}, All: []int64{1, 6}, Fresh: []int64{1, 5},
	}
	m, err := countedBy(t, func(consume func(Rows) error) (string, error) { return "enough", consume(rows) })
	require.NoError(t, err)
	require.Len(t, m.Rows, 3)
	require.Equal(t, []float64{1, 2}, m.Rows[0].Values)
	require.Equal(t, []float64{4}, m.Rows[1].Values)
	require.Equal(t, []plan.Run{{First: 1, Len: 1}}, m.Rows[1].Runs)
	require.Equal(t, []float64{4, 4}, m.Rows[2].Values, "the cores'")
	require.Equal(t, []int64{1 + 4, 6 + 4}, m.SamplesAtStep)
	rows.Values[0] = rows.Values[0][:3:3]
	require.Panics(t, func() {
		_, _ = countedBy(t, func(consume func(Rows) error) (string, error) {
			failed := make(chan error)
			go func() { failed <- consume(rows) }()
			return "", <-failed
		})
	})
}

// TestLentRows: values whose memory is lent stay there until the matrix is released,
// unless they are few or the query fails. In any case it is given back once.
func TestLentRows(t *testing.T) {
	released := 0
	lent := func(present ...uint64) (Rows, []float64) {
		x := Rows{Each: 2, Values: [][]float64{{1, 2, 3, 4}, {5, 6}}, Present: present, All: make([]int64, 2), Fresh: make([]int64, 2)}
		for _, p := range present {
			x.Counts = append(x.Counts, SeriesCounts{Points: uint32(bits.OnesCount64(p))})
		}
		released = 0
		x.Release = func() { released++ }
		return x, x.Values[0]
	}
	values := func(m *plan.Matrix) (all [][]float64) {
		for _, row := range m.Rows {
			all = append(all, row.Values)
		}
		return all
	}
	for _, c := range []struct {
		name    string
		present []uint64
		stay    bool
		want    [][]float64
	}{
		{"all", []uint64{3, 3, 3}, true, [][]float64{{1, 2}, {3, 4}, {5, 6}}},
		{"most", []uint64{2, 3, 0}, true, [][]float64{{2}, {3, 4}}},
		{"few", []uint64{2, 0, 1}, false, [][]float64{{2}, {5}}},
	} {
		x, first := lent(c.present...)
		m, err := countedBy(t, func(consume func(Rows) error) (string, error) { return "", consume(x) })
		require.NoError(t, err)
		require.Equal(t, c.want, values(m), c.name)
		for _, row := range m.Rows {
			require.Equal(t, len(row.Values), cap(row.Values), c.name)
		}
		before := m.Rows[0].Values[0]
		first[0], first[1] = 8, 8
		require.Equal(t, c.stay, m.Rows[0].Values[0] != before, c.name)
		require.Equal(t, c.stay, released == 0, c.name)
		m.Release()
		m.Release()
		require.Equal(t, 1, released, c.name)
	}
	x, _ := lent(3, 3, 3)
	failed := errors.New("failed")
	_, err := countedBy(t, func(consume func(Rows) error) (string, error) { return "", errors.Join(consume(x), failed) })
	require.ErrorIs(t, err, failed)
	require.Equal(t, 1, released, "the query fails later")
	x, _ = lent(3, 3, 3)
	x.Fresh = x.Fresh[:1]
	require.Panics(t, func() {
		_, _ = countedBy(t, func(consume func(Rows) error) (string, error) { return "", consume(x) })
	})
	require.Equal(t, 1, released, "a panic")
}
