package gpuexec

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// TestWideChunks: chunks of many bytes, of long time ranges and far from the others
// do not fit into entries of the table of chunks, and are found all the same.
func TestWideChunks(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	b := selection.NewBuilder(0)
	wide := 0
	const day = 86_400_000
	for i := range 100 {
		b.Series(labels.FromStrings("__name__", "m", "instance", strconv.Itoa(100+i)))
		at := r.Int64N(day)
		for range 1 + r.IntN(8) {
			n, every := 30, int64(15_000)
			switch kind := r.IntN(4); {
			case wide == 0:
				n = math.MaxUint16 // the most that a chunk has
			case kind == 0:
				n = 2000 // of 10 bytes
			case kind == 1:
				every = day / 4
			case kind == 2:
				at += 500 * day
			}
			ts, vs := make([]int64, n), make([]float64, n)
			for k := range ts {
				at += every + r.Int64N(1000)
				ts[k], vs[k] = at, r.Float64()
			}
			enc, data := chunkenc.EncXOR, encode(t, ts, vs)
			if r.IntN(2) == 0 {
				enc, data = chunkenc.EncXOR2, encode2(t, r, ts, vs)
			}
			if !abi.EntryFits(uint32(len(data)), ts[0], ts[n-1], 0) {
				wide++
			}
			require.NoError(t, b.Chunk(enc, ts[0], ts[n-1], data))
		}
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	require.Greater(t, wide, 100)
	require.Less(t, wide, sel.NumChunks()-50)
	x, cpu := executor(t, Options{Memory: 512 << 20}), cpuexec.New(cpuexec.Options{})
	for _, interval := range []int64{day / 24, 3 * day} {
		job := jobOver(aggregation("sum", "sum_over_time", day, 0, nil, nil, false), plan.Grid{Interval: interval, Steps: 500}, sel)
		want, err := cpu.Run(t.Context(), job)
		require.NoError(t, err)
		require.NotEmpty(t, want.Rows)
		got, err := x.Run(t.Context(), job)
		require.NoError(t, err)
		same(t, want, got, true, "wide chunks")
	}
}
