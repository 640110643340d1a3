package gpuexec

import (
	"bytes"
	"encoding/gob"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
)

// TestOutcomeStays: an outcome belongs to the caller. It does not refer to the staging
// memory that its results came through, which later leaves have.
func TestOutcomeStays(t *testing.T) {
	x := executor(t, Options{Memory: 24 << 20, Staging: 1 << 20})
	sel := randomSelection(t, rand.New(rand.NewPCG(81, 82)), 300)
	for _, op := range []string{"sum", "topk", "quantile"} {
		node := aggregation(op, "max_over_time", 300_000, 0, nil, []string{"job"}, false)
		node.Input = &plan.Map{Func: vector.Named(">"), Input: node.Input, Args: []float64{0}, Origin: plan.Origin{Text: "max_over_time(m_total) > 0"}}
		node.Param = map[string]float64{"topk": 3, "quantile": 0.5}[op]
		l, err := x.cpu.OpenLeaf(t.Context(), jobOver(node, faultGrid, sel))
		require.NoError(t, err)
		o, err := x.Evaluate(t.Context(), l, nil)
		require.NoError(t, err)
		require.Len(t, o.Results.Counts, 300)
		require.Len(t, o.Results.Kept[0], 300)
		require.NotEmpty(t, o.Results.Values)
		require.Len(t, o.Results.All, faultGrid.Steps)
		before := encoded(t, o)
		for _, s := range []*pipeline.Workspace{&x.Small, &x.Large} {
			for _, slot := range s.Slots {
				for i := range slot.Staging {
					slot.Staging[i]++
				}
			}
		}
		require.Equal(t, before, encoded(t, o), op)
	}
}

// encoded is the results of an outcome, with the bits of their values.
func encoded(t *testing.T, o Outcome) []byte {
	var b bytes.Buffer
	require.NoError(t, gob.NewEncoder(&b).Encode(o.Results))
	return b.Bytes()
}
