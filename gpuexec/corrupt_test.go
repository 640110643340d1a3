package gpuexec

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestCorruptAlike cuts chunks at every byte and flips every bit of them: the GPU
// gives the cores' answer, or their error.
func TestCorruptAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(81, 82))
	x := executor(t, Options{Memory: 200 << 20, Staging: 100 << 10})
	cpu := cpuexec.New(cpuexec.Options{})
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	seen, fused := map[string]int{}, map[bool]int{}
	check := func(enc chunkenc.Encoding, minT, maxT int64, data []byte) {
		b := selection.NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m_total"))
		if b.Chunk(enc, minT, maxT, data) != nil {
			return // noticed earlier
		}
		sel, err := b.Finish()
		require.NoError(t, err)
		grid := plan.Grid{Start: minT, Interval: max(1, (maxT-minT)/20), Steps: 22}
		width := []int64{max(1, (maxT-minT)/7), grid.Interval}[(fused[true]+fused[false])%2] // not fused, or fused
		job := jobOver(aggregation("max", "last_over_time", width, 0, nil, nil, false), grid, sel)
		want, wantErr := cpu.Run(t.Context(), job)
		var stages pipeline.Stages
		got, err := x.RunStages(t.Context(), job, &stages)
		fused[stages.Fused]++
		if wantErr == nil {
			seen["none"]++
			require.NoError(t, err, "%s %x", enc, data)
			same(t, want, got, true, enc.String())
			return
		}
		require.EqualError(t, err, wantErr.Error(), "%s %x", enc, data)
		var w, g *selection.CorruptError
		require.ErrorAs(t, wantErr, &w)
		require.ErrorAs(t, err, &g)
		seen[w.Err.Error()[:20]]++
	}
	for range rounds {
		ts, vs := selectiontest.RandomSamples(r, 1+r.IntN(40))
		minT, maxT := ts[0], ts[len(ts)-1]
		for enc, good := range map[chunkenc.Encoding][]byte{chunkenc.EncXOR: encode(t, ts, vs), chunkenc.EncXOR2: encode2(t, r, ts, vs)} {
			check(enc, minT, maxT, good)
			check(enc, minT+1, maxT+1, good)
			check(enc, minT-1, max(minT-1, maxT-1), good)
			for at := 2; at < len(good); at++ {
				check(enc, minT, maxT, good[:at])
			}
			for bit := range len(good) * 8 {
				bad := append([]byte(nil), good...)
				bad[bit/8] ^= 0x80 >> (bit % 8)
				check(enc, minT, maxT, bad)
			}
		}
	}
	t.Log(seen, fused)
	require.Positive(t, fused[true])
	require.Positive(t, fused[false])
	if !testing.Short() {
		require.Len(t, seen, 5, "all kinds of errors, and none")
	}
}
