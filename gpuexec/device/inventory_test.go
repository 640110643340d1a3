package device

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

func TestInventory(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2")
	inv := TakeInventory(cudatest.Library(t))
	require.Empty(t, inv.Reason)
	require.True(t, inv.Usable())
	require.Len(t, inv.Devices, 2)
	for i, d := range inv.Devices {
		require.Equal(t, i, d.Ordinal)
		require.True(t, d.Usable, d.Reason)
		require.Equal(t, "9.0", d.Capability)
		require.Equal(t, uint64(1<<30), d.FreeBytes)
		require.Positive(t, d.ToDevice)
		require.Positive(t, d.FromDevice)
		require.Positive(t, d.LaunchSeconds)
	}
	require.Zero(t, h.Held())
}

func TestInventoryWithoutDriver(t *testing.T) {
	inv := TakeInventory("libnothing.so.1")
	require.False(t, inv.Usable())
	require.Contains(t, inv.Reason, "no NVIDIA driver: libnothing.so.1: cannot open shared object file")
	require.NotNil(t, inv.Devices, "an empty list in JSON")
}

func TestInventoryOfUnusableDevice(t *testing.T) {
	h := cudatest.Control(t)
	for settings, reason := range map[string]string{
		"capability=61":                      "its compute capability is 6.1, and the kernels need 7.5 (Turing, 2018) or later",
		"cuDevicePrimaryCtxRetain:1=46":      "see with nvidia-smi -q -d COMPUTE whether another process has it to itself",
		"cuModuleLoadDataEx:1=222":           "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
		"memory=100":                         "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)",
		"cuLaunchKernel:2=719":               "cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED (719)",
		"cuDevicePrimaryCtxRelease_v2:1=999": "cuDevicePrimaryCtxRelease_v2: CUDA_ERROR_UNKNOWN (999)",
	} {
		h.Reset()
		h.Configure(settings)
		inv := TakeInventory(cudatest.Library(t))
		require.Len(t, inv.Devices, 1, settings)
		require.False(t, inv.Usable(), settings)
		require.Contains(t, inv.Devices[0].Reason, reason, settings)
		require.Equal(t, "promwarp host device 0", inv.Devices[0].Name)
	}
}

// TestInventoryFaults lets each call that an inventory makes fail in turn.
func TestInventoryFaults(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("memory=4096000")
	lib := cudatest.Library(t)
	require.True(t, TakeInventory(lib).Usable())
	for _, name := range []string{
		"cuMemGetInfo_v2", "cuModuleGetFunction", "cuStreamCreate", "cuMemHostAlloc", "cuMemAlloc_v2", "cuEventCreate",
		"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime",
		"cuStreamSynchronize", "cuLaunchKernel", "cuMemFree_v2", "cuMemFreeHost", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuModuleUnload",
	} {
		h.Reset()
		h.Configure("memory=4096000")
		TakeInventory(lib)
		n := h.Calls(name)
		require.NotZero(t, n, name)
		step := 1
		if testing.Short() {
			step = max(1, n/6)
		}
		for nth := 1; nth <= n; nth += step {
			h.Reset()
			h.Configure(fmt.Sprintf("memory=4096000,%s:%d=999", name, nth))
			inv := TakeInventory(lib)
			require.Len(t, inv.Devices, 1)
			require.Contains(t, inv.Devices[0].Reason, name+": CUDA_ERROR_UNKNOWN (999)", "call %d", nth)
			require.Zero(t, h.Held(), "after call %d of %s", nth, name)
		}
	}
}
