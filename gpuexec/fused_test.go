package gpuexec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// fuseUpTo has fused kernels take windows of so many chunks.
func fuseUpTo(t *testing.T, chunks float64) {
	before := fusedWidest
	t.Cleanup(func() { fusedWidest = before })
	fusedWidest = chunks
}

// Windows that share no sample come out the same whether they are computed while
// decoding or from columns: as the cores have them, to the bit.
func TestFused(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	x := executor(t, Options{Memory: 400 << 20, Staging: 1 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	var fusible []string
	for name, f := range functions {
		if slices.Contains(f.GPU.Kernel.Strategies(), abi.Fused) {
			fusible = append(fusible, name)
		}
	}
	rounds := 250
	if testing.Short() {
		rounds = 60
	}
	ran := map[string]int{}
	for round := range rounds {
		sel := randomSelection(t, r, 1+r.IntN(120))
		name := fusible[r.IntN(len(fusible))]
		interval := []int64{15_000, 60_000, 300_000, 3_600_000}[r.IntN(4)]
		width := interval - r.Int64N(interval)/[]int64{1, 10_000_000}[r.IntN(2)]
		grid := plan.Grid{Start: r.Int64N(3_000_000) - 500_000, Interval: interval, Steps: 1 + r.IntN(200)}
		if r.IntN(8) == 0 {
			grid.Steps, width = 1, interval*int64(1+r.IntN(20))
		}
		fuseUpTo(t, []float64{0, 1, 1e6}[r.IntN(3)])
		what := fmt.Sprintf("round %d: %s of %d ms every %d ms, %d steps, up to %g chunks", round, name, width, interval, grid.Steps, fusedWidest)
		job := jobOver(aggregation("sum", name, width, r.Int64N(2)*100_000, nil, []string{"job"}, r.IntN(2) == 0), grid, sel)
		want, wantErr := cpu.Run(t.Context(), job)
		var stages pipeline.Stages
		got, err := x.RunStages(t.Context(), job, &stages)
		if wantErr != nil {
			require.EqualError(t, err, wantErr.Error(), what)
			continue
		}
		require.NoError(t, err, what)
		same(t, want, got, functions[name].GPU.Kernel != abi.ByOperator || name == "min_over_time" || name == "max_over_time", what)
		if stages.Fused {
			ran[name]++
		}
	}
	t.Log(ran)
	require.Greater(t, len(ran), len(fusible)/2, "functions that ran fused")
	if !testing.Short() {
		require.Len(t, ran, len(fusible), "functions that ran fused")
	}
}

// Resets are added in their order, however many a window has.
func TestFusedResets(t *testing.T) {
	x := executor(t, Options{Memory: 200 << 20})
	cpu := cpuexec.New(cpuexec.Options{})
	fuseUpTo(t, 1e6)
	r := rand.New(rand.NewPCG(93, 94))
	for resets := range 12 {
		for _, enc := range []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2} {
			b := selection.NewBuilder(0)
			for i := range 40 {
				b.Series(labels.FromStrings("__name__", "m_total", "job", "a", "instance", fmt.Sprintf("%05d", i)))
				for first := 0; first < 600; first += 120 {
					ts, vs := make([]int64, 120), make([]float64, 120)
					for k := range ts {
						ts[k] = int64(first+k) * 15_000
						vs[k] = float64(k%40) / 3
						if resets > 0 && k%(40/resets) == 0 {
							vs[k] = r.Float64() / 1e3
						}
					}
					data := encode(t, ts, vs)
					if enc == chunkenc.EncXOR2 {
						data = encode2(t, r, ts, vs)
					}
					require.NoError(t, b.Chunk(enc, ts[0], ts[119], data))
				}
			}
			sel, err := b.Finish()
			require.NoError(t, err)
			for _, name := range []string{"rate", "increase", "delta"} {
				job := jobOver(aggregation("max", name, 600_000, 0, nil, []string{"instance"}, false), plan.Grid{Start: 300_000, Interval: 600_000, Steps: 17}, sel)
				want, err := cpu.Run(t.Context(), job)
				require.NoError(t, err)
				var stages pipeline.Stages
				got, err := x.RunStages(t.Context(), job, &stages)
				require.NoError(t, err)
				require.Equal(t, enc == chunkenc.EncXOR, stages.Fused, "XOR2 chunks are decoded to columns")
				same(t, want, got, true, fmt.Sprintf("%s with %d resets, %s", name, resets, enc))
			}
		}
	}
}
