package gpuexec

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// TestSuitsStarts: samples with start timestamps stay on the cores where the engine uses
// them and the function reads them.
func TestSuitsStarts(t *testing.T) {
	over := func(start int64) *selection.Selection {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m_total"))
		c := chunkenc.NewXOR2Chunk()
		app, err := c.Appender()
		require.NoError(t, err)
		for i := range int64(20) {
			app.Append(start, i*15_000, float64(i))
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR2, 0, 19*15_000, c.Bytes()))
		s, err := b.Finish()
		require.NoError(t, err)
		return s
	}
	for _, c := range []struct {
		function string
		start    int64
		uses     bool
		left     bool
	}{
		{"rate", -5, true, true}, {"resets", -5, true, true}, {"irate", -5, true, true},
		{"rate", -5, false, false}, {"rate", 0, true, false}, {"delta", -5, true, false},
	} {
		job := jobOver(aggregation("sum", c.function, 60_000, 0, nil, nil, false), plan.NewGrid(60_000, 300_000, 15_000), over(c.start))
		job.StartTimestamps = c.uses
		l, err := cpuexec.New(cpuexec.Options{}).OpenLeaf(t.Context(), job)
		require.NoError(t, err)
		require.Equal(t, c.left, SuitsLeaf(l) == "samples with start timestamps are not on the GPU yet", "%+v", c)
		require.Equal(t, !c.left, SuitsLeaf(l) == "", "%+v", c)
	}
}
