package cuda_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/kernels/ptx"
)

func TestEveryCall(t *testing.T) {
	require.NoError(t, useAll(cudatest.Library(t)))
}

// TestFaultOfEveryCall lets each call of each function fail in turn: the error
// names it, and nothing is left behind.
func TestFaultOfEveryCall(t *testing.T) {
	h := cudatest.Control(t)
	lib := cudatest.Library(t)
	require.NoError(t, useAll(lib))
	require.Zero(t, h.Held())
	calls := map[string]int{}
	for _, name := range cuda.CallNames() {
		calls[name] = h.Calls(name)
	}
	for name, n := range calls {
		if name == "cuGetErrorName" || name == "cuGetErrorString" {
			continue // they describe the faults
		}
		require.NotZero(t, n, "%s is not used", name)
		for nth := 1; nth <= n; nth++ {
			h.Reset()
			h.Configure(fmt.Sprintf("%s:%d=999", name, nth))
			err := useAll(lib)
			require.ErrorContains(t, err, name+": CUDA_ERROR_UNKNOWN (999): unknown error", "call %d", nth)
			if name != "cuDevicePrimaryCtxRelease_v2" {
				require.Zero(t, h.Held(), "after call %d of %s", nth, name)
			}
			require.NoError(t, useAll(lib), "call %d of %s", nth, name) // the fault is over
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("memory=1000")
	dev := cudatest.Device(t)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		p, err := c.Alloc(600)
		require.NoError(t, err)
		_, err = c.Alloc(600)
		require.ErrorIs(t, err, cuda.OutOfMemory)
		require.EqualError(t, err, "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
		free, total, err := c.MemoryInfo()
		require.NoError(t, err)
		require.Equal(t, []uint64{400, 1000}, []uint64{free, total})
		return c.Free(p)
	}))
}

func TestBadPTX(t *testing.T) {
	dev := cudatest.Device(t)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		_, err := c.Load([]byte("this is no PTX"))
		require.ErrorContains(t, err, "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE (200): device kernel image is invalid; its compiler says: ")
		_, err = c.Load(bytes.Replace(ptx.Of(check), []byte(".target sm_75"), nil, 1))
		require.ErrorContains(t, err, "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218)")
		require.ErrorContains(t, err, ".target")
		m, err := c.Load(ptx.Of(check))
		require.NoError(t, err)
		_, err = c.Function(m, "absent")
		require.ErrorContains(t, err, "kernel absent: cuModuleGetFunction: CUDA_ERROR_NOT_FOUND (500)")
		return c.Unload(m)
	}))
}

func TestLaunchParameters(t *testing.T) {
	dev := cudatest.Device(t)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		one := cuda.Size{X: 1}
		require.EqualError(t, c.Launch(0, one, one, 0, make([]uint64, 25)...), "a kernel with 25 parameters: at most 24 are possible")
		return nil
	}))
}

// TestHostDriverWaits: the host driver does nothing before somebody waits, so
// that tests notice where nobody does.
func TestHostDriverWaits(t *testing.T) {
	cudatest.Control(t)
	require.NoError(t, cudatest.Device(t).Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		p, err := c.Alloc(4)
		require.NoError(t, err)
		out := make([]byte, 4)
		require.NoError(t, c.Set(p, 7, 4, s))
		require.NoError(t, c.CopyOut(out, p, s))
		require.Equal(t, []byte{0, 0, 0, 0}, out)
		require.NoError(t, c.Wait(s))
		require.Equal(t, []byte{7, 7, 7, 7}, out)
		require.ErrorContains(t, c.Set(p+1, 7, 4, s), "cuMemsetD8Async: CUDA_ERROR_INVALID_VALUE (1)", "beyond the allocation")
		require.ErrorContains(t, c.Free(p+1), "cuMemFree_v2: CUDA_ERROR_INVALID_VALUE (1)")
		return nil // what is left is given back with the device
	}))
}

// TestDo: whoever asks has the device's context, and after that the thread has none.
func TestDo(t *testing.T) {
	dev, err := cudatest.Open(t).Device(0)
	require.NoError(t, err)
	results := make(chan error)
	for range 8 {
		go func() {
			var n uint64
			for range 50 {
				if err := dev.Do(func(c *cuda.Context) (err error) { _, n, err = c.MemoryInfo(); return err }); err != nil || n == 0 {
					results <- fmt.Errorf("%d bytes: %w", n, err)
					return
				}
				runtime.Gosched()
			}
			results <- nil
		}()
	}
	for range 8 {
		require.NoError(t, <-results)
	}
	require.ErrorIs(t, dev.Do(func(*cuda.Context) error { return fs.ErrExist }), fs.ErrExist)
	require.PanicsWithValue(t, "out", func() { _ = dev.Do(func(*cuda.Context) error { panic("out") }) })
	require.NoError(t, dev.Do(func(*cuda.Context) error { return nil }), "the device survives a panic")
	require.NoError(t, dev.Close())
	require.NoError(t, dev.Close())
	require.ErrorIs(t, dev.Do(func(*cuda.Context) error { return nil }), cuda.ErrClosed)
}

// TestDoExit: work that ends its goroutine, as FailNow of a test does, hangs nobody.
func TestDoExit(t *testing.T) {
	dev, err := cudatest.Open(t).Device(0)
	require.NoError(t, err)
	ended := make(chan bool)
	go func() {
		defer close(ended)
		_ = dev.Do(func(*cuda.Context) error { runtime.Goexit(); return nil })
		ended <- true
	}()
	require.False(t, <-ended, "Do returned")
	require.NoError(t, dev.Do(func(*cuda.Context) error { return nil }))
	require.NoError(t, dev.Close())
}

// TestDoOthers: other devices have other contexts, also on the same thread.
func TestDoOthers(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2,memory=1000")
	d := cudatest.Open(t)
	var devs [2]*cuda.Device
	for i := range devs {
		var err error
		devs[i], err = d.Device(i)
		require.NoError(t, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i, dev := range devs {
		require.NoError(t, dev.Do(func(c *cuda.Context) error {
			_, err := c.Alloc(uint64(100 * (i + 1)))
			return err
		}))
	}
	for i, dev := range devs {
		require.NoError(t, dev.Do(func(c *cuda.Context) error {
			free, _, err := c.MemoryInfo()
			require.Equal(t, uint64(1000-100*(i+1)), free)
			return err
		}))
		require.NoError(t, dev.Close())
	}
	require.Zero(t, h.Held())
}

func TestInfo(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2,memory=12345,capability=75,version=12080")
	d := cudatest.Open(t)
	require.Equal(t, "12.8", d.Version())
	infos, err := d.Devices()
	require.NoError(t, err)
	require.Equal(t, []cuda.Info{
		{Ordinal: 0, Name: "promwarp host device 0", PCIBusID: "0000:00:00.0", MemoryBytes: 12345, Major: 7, Minor: 5, Multiprocessors: 1},
		{Ordinal: 1, Name: "promwarp host device 1", PCIBusID: "0000:01:00.0", MemoryBytes: 12345, Major: 7, Minor: 5, Multiprocessors: 1},
	}, infos)
	_, err = d.Device(2)
	require.ErrorContains(t, err, "device 2: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101)")
}
