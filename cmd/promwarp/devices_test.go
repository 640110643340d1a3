package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/device"
)

func TestDevicesTable(t *testing.T) {
	h := cudatest.Control(t)
	// A device retains its context once: the second call is the
	// second device's.
	h.Configure("devices=2,memory=1073741824,cuDevicePrimaryCtxRetain:2=46")
	var out bytes.Buffer
	require.NoError(t, runDevices(cudatest.Library(t), "table", &out))
	require.Regexp(t, `^driver +(\S+, )?CUDA 12.8

device 0 +promwarp host device 0, PCI 0000:00:00.0
compute capability +9.0, 1 multiprocessors
memory +1.0 GiB
memory free +1.0 GiB
copy to device +[\d.]+ GB/s
copy from device +[\d.]+ GB/s
launch and wait +\d+ µs
start +\d+ ms to open, \d+ ms to load the kernels
usable +yes; its sums are right

device 1 +promwarp host device 1, PCI 0000:01:00.0
compute capability +9.0, 1 multiprocessors
memory +1.0 GiB
usable +no: .*another process has it to itself
$`, out.String())
}

func TestDevicesJSON(t *testing.T) {
	cudatest.Control(t)
	var out bytes.Buffer
	require.NoError(t, runDevices(cudatest.Library(t), "json", &out))
	var inv device.Inventory
	require.NoError(t, json.Unmarshal(out.Bytes(), &inv))
	require.Equal(t, "12.8", inv.CUDA)
	require.Len(t, inv.Devices, 1)
	require.True(t, inv.Devices[0].Usable)
	require.Positive(t, inv.Devices[0].ToDevice)
}

func TestDevicesWithoutDriver(t *testing.T) {
	for _, output := range []string{"table", "json"} {
		var out bytes.Buffer
		require.ErrorIs(t, runDevices("libnothing.so.1", output, &out), errNoDevice)
		require.Contains(t, out.String(), "no NVIDIA driver: libnothing.so.1: cannot open shared object file")
	}
}

func TestDevicesCommand(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitError, execute(t.Context(), []string{"devices", "--gpu.library=libnothing.so.1"}, &stderr))
	require.Equal(t, "promwarp devices: no GPU is usable\n", stderr.String())
	require.Equal(t, exitUsage, execute(t.Context(), []string{"devices", "--format=xml"}, &stderr))
}
