package gpuexec

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// BenchmarkAround is what a job over 100 000 series costs on the host besides the
// device's work: opening it, and making its result.
func BenchmarkAround(b *testing.B) {
	cpu := cpuexec.New(cpuexec.Options{})
	sel, err := synthetic.Counters("m_total", 100_000, 120)
	require.NoError(b, err)
	job := jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"job"}, false), plan.Grid{Start: synthetic.Start + 60_000, Interval: 60_000, Steps: 2500}, sel)
	l, err := cpu.OpenLeaf(b.Context(), job)
	require.NoError(b, err)
	values := make([]float64, l.Groups*l.Grid.Steps)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			_, err := cpu.OpenLeaf(b.Context(), job)
			require.NoError(b, err)
		}
	})
	x := &computed{}
	x.Results.Values, x.Results.Counts = values, make([]cpuexec.SeriesCounts, len(l.GroupOf))
	for i := range x.Results.Counts {
		x.Results.Counts[i] = cpuexec.SeriesCounts{Points: 2500, Most: 20, Last: 20}
	}
	job.Accelerator = x
	b.Run("finish", func(b *testing.B) {
		for b.Loop() {
			m, err := cpu.Run(b.Context(), job)
			require.NoError(b, err)
			m.Release()
		}
	})
}

// computed is an accelerator that has the outcome already.
type computed struct{ cpuexec.Outcome }

func (*computed) Aggregates(*plan.Aggregate) bool      { return true }
func (*computed) Accepts(plan.Node) bool               { return true }
func (*computed) OnCores(*cpuexec.Leaf, time.Duration) {}

func (c *computed) Evaluate(context.Context, *cpuexec.Leaf, func(cpuexec.Rows) error) (cpuexec.Outcome, error) {
	return c.Outcome, nil
}
