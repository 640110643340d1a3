package benchmark

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/remoteread/upstream"
)

// TestOnGPU: GPUs have a column, and compute all queries.
func TestOnGPU(t *testing.T) {
	cudatest.Control(t)
	set := config.Default()
	set.GPU.Mode, set.GPU.Library, set.GPU.Constants = config.GPURequire, cudatest.Library(t), filepath.Join(t.TempDir(), "constants")
	set.Divide()
	gpus, err := backend.OpenGPUs(set.GPU, promslog.NewNopLogger(), nil)
	require.NoError(t, err)
	defer gpus.Close()
	r, err := Run(t.Context(), Options{Series: 8, Hours: 1, GPUs: gpus, Settings: set.Engine(upstream.Facts{}), Note: func(string) {}})
	require.NoError(t, err)
	require.Equal(t, "1 core", r.Columns[0])
	require.Equal(t, "GPU", r.Columns[len(r.Columns)-1])
	require.Equal(t, int64(8*240), r.Samples)
	require.Len(t, r.Rows, len(queries))
	for _, row := range r.Rows {
		require.Empty(t, row.Failure, row.Query)
		require.Len(t, row.Rates, len(r.Columns))
		for _, rate := range row.Rates {
			require.Positive(t, rate)
		}
	}
}

func TestColumns(t *testing.T) {
	names := func(cores int, gpu bool) (all []string) {
		for _, c := range columns(cores, gpu) {
			all = append(all, c.name)
		}
		return all
	}
	require.Equal(t, []string{"1 core"}, names(1, false))
	require.Equal(t, []string{"1 core", "2 cores", "4 cores", "6 cores"}, names(6, false))
	require.Equal(t, []string{"1 core", "2 cores", "GPU"}, names(2, true))
}
