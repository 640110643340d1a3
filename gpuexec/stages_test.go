package gpuexec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
)

// TestAnnotatedStages: profilers are told of every stage of every batch.
func TestAnnotatedStages(t *testing.T) {
	h := cudatest.Control(t)
	x := executor(t, Options{Memory: 64 << 20, Staging: 1 << 20})
	sel := randomSelection(t, rand.New(rand.NewPCG(5, 5)), 500)
	job := jobOver(aggregation("sum", "rate", 300_000, 0, nil, []string{"job"}, false), plan.Grid{Interval: 60_000, Steps: 100}, sel)
	require.NoError(t, cuda.Annotate(cudatest.Library(t)))
	t.Cleanup(func() { require.NoError(t, cuda.Annotate("")) })
	var stages pipeline.Stages
	_, err := x.RunStages(t.Context(), job, &stages)
	require.NoError(t, err)
	require.Positive(t, stages.Batches)
	for _, name := range []string{"prepare", "copy", "decode", "window", "reduce"} {
		require.GreaterOrEqual(t, h.Ranges("promwarp: "+name), stages.Batches, name)
	}
}
