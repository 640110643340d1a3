package launch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/kernels/abi"
)

// TestLaunch loads a kernel, launches it, and asks for one that is not loaded.
func TestLaunch(t *testing.T) {
	dev := cudatest.Device(t)
	set, err := Load(dev, CheckKernel)
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		q := Queue{Set: set, Context: c, Stream: s}
		one, block := cuda.Size{X: 1}, cuda.Size{X: abi.CheckBlock}
		at, err := c.Alloc(4)
		require.NoError(t, err)
		check := Check{Sums: at}
		require.NoError(t, c.Set(at, 7, 4, s))
		require.NoError(t, check.Launch(q, one, block))
		sum := []byte{1, 1, 1, 1}
		require.NoError(t, c.CopyOut(sum, at, s))
		require.NoError(t, c.Wait(s))
		require.Equal(t, make([]byte, 4), sum, "the sum of no numbers")

		require.EqualError(t, (&WindowRate{}).Launch(q, one, block), "kernel window_rate is not loaded")
		require.NoError(t, c.Free(at))
		require.NoError(t, c.DestroyStream(s))
		return set.Unload(c)
	}))
}

// TestQueries: what queries load has no kernel that only tests and benchmarks launch.
func TestQueries(t *testing.T) {
	require.NotEmpty(t, Queries())
	for _, k := range append(Probe, Historic...) {
		require.NotContains(t, Queries(), k, k)
	}
}
