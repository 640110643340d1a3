package gpuexec

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
)

// inOwnProcess is set where a test runs in a process that it may spoil.
const inOwnProcess = "PROMWARP_TEST_OWN_PROCESS"

// TestLostDevice: after a kernel went wrong every call fails until the process
// ends, though the device is closed and opened again.
func TestLostDevice(t *testing.T) {
	if os.Getenv(inOwnProcess) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLostDevice$", "-test.v")
		cmd.Env = append(os.Environ(), inOwnProcess+"=1", "PROMWARP_CUDA_LIBRARY="+cudatest.Library(t))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestLostDevice")
		return
	}
	var h *cudatest.Host
	if !cudatest.Real() {
		h = cudatest.Control(t)
	}
	driver := cudatest.Open(t)
	dev, err := driver.Device(0)
	require.NoError(t, err)
	k, err := launch.Load(dev, append(launch.Queries(), launch.Probe...)...)
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		err = spoil(c, k, s, h)
		require.True(t, cuda.Lost(err), "%v", err)
		_, err = c.Alloc(1)
		require.True(t, cuda.Lost(err), "%v", err)
		_, err = c.NewStream()
		require.True(t, cuda.Lost(err), "%v", err)
		require.True(t, cuda.Lost(k.Unload(c)))
		return nil
	}))
	require.NoError(t, dev.Close())

	_, err = driver.Device(0)
	require.True(t, cuda.Lost(err), "%v", err)
	require.ErrorContains(t, err, "a kernel failed on it, and it is of no use to this process until that is restarted")
}

// spoil lets a kernel read what no one may, or, on the host driver, fail
// as one that did.
func spoil(c *cuda.Context, k *launch.Set, s cuda.Stream, h *cudatest.Host) error {
	if h != nil {
		h.Configure("cuLaunchKernel:1=719")
	}
	err := k.On(c, s).Launch("check", cuda.Size{X: 1}, cuda.Size{X: abi.CheckBlock}, cuda.Pointer(0), uint32(abi.CheckBlock), cuda.Pointer(0))
	return errors.Join(err, c.Wait(s))
}
