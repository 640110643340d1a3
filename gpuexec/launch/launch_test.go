package launch

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/kernels/abi"
)

// TestLaunch loads a kernel, launches it, and asks for one that is not loaded.
func TestLaunch(t *testing.T) {
	dev := cudatest.Device(t)
	set, err := Load(dev, "check")
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		q := Queue{Set: set, Context: c, Stream: s}
		one, block := cuda.Size{X: 1}, cuda.Size{X: abi.CheckBlock}
		at, err := c.Alloc(4)
		require.NoError(t, err)
		require.NoError(t, c.Set(at, 7, 4, s))
		require.NoError(t, q.Launch("check", one, block, cuda.Pointer(0), uint32(0), at))
		sum := []byte{1, 1, 1, 1}
		require.NoError(t, c.CopyOut(sum, at, s))
		require.NoError(t, c.Wait(s))
		require.Equal(t, make([]byte, 4), sum, "the sum of no numbers")

		require.EqualError(t, q.Launch("window_rate", one, block), "kernel window_rate is not loaded")
		require.EqualError(t, q.Launch("check", one, block, at), "kernel check: 1 parameters of 3")
		require.EqualError(t, q.Launch("check", one, block, at, uint64(0), at), "kernel check: parameter 1 is a uint64 for a .u32")
		require.EqualError(t, q.Launch("check", one, block, at, 0, at), "kernel check: parameter 1 is a int for a .u32")
		require.NoError(t, c.Free(at))
		require.NoError(t, c.DestroyStream(s))
		return set.Unload(c)
	}))
}

// TestKernels: the lists of rooms have the kernels whose sources there are.
func TestKernels(t *testing.T) {
	for room, listed := range map[string][]Kernel{
		"decode": Decode, "window": Window, "values": Values, "group": Group, "resample": Resample, "custom": Custom,
		"probe": Probe, "historic": Historic,
	} {
		sources, err := filepath.Glob("../../kernels/" + room + "/*.cu")
		require.NoError(t, err)
		var there []Kernel
		for _, path := range sources {
			there = append(there, Kernel(strings.TrimSuffix(filepath.Base(path), ".cu")))
		}
		require.ElementsMatch(t, there, listed, room)
	}
}

// TestQueries: what queries load has no kernel that only tests and benchmarks launch.
func TestQueries(t *testing.T) {
	require.NotEmpty(t, Queries())
	for _, k := range append(Probe, Historic...) {
		require.NotContains(t, Queries(), k, k)
	}
}
