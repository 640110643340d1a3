package cuda_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/kernels/ptx"
)

// useAll makes every call of the binding once and checks what comes of it.
// Where a call fails it gives back what it can and returns the error.
func useAll(library string) (err error) {
	d, err := cuda.Open(library)
	if err != nil {
		return err
	}
	if _, err := d.Devices(); err != nil {
		return err
	}
	dev, err := d.Device(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	apart := func(c *cuda.Context) error {
		m, err := c.Load(ptx.Of(check))
		if err != nil {
			return err
		}
		return c.Unload(m)
	}
	if err := dev.Apart(apart); err != nil {
		return err
	}
	return dev.Do(func(c *cuda.Context) (err error) {
		var undo []func() error
		defer func() {
			for i := range undo {
				err = errors.Join(err, undo[len(undo)-1-i]())
			}
		}()
		later := func(f func() error) { undo = append(undo, f) }
		return use(c, later)
	})
}

// check is the kernel that use launches, and numbers what it adds.
const (
	check   = "check"
	numbers = 1000
)

// use sums numbers on the device with the kernel check.
func use(c *cuda.Context, later func(func() error)) error {
	free, total, err := c.MemoryInfo()
	if err != nil {
		return err
	}
	if free == 0 || free > total {
		return fmt.Errorf("%d of %d bytes are free", free, total)
	}
	m, err := c.Load(ptx.Of(check))
	if err != nil {
		return err
	}
	later(func() error { return c.Unload(m) })
	f, err := c.Function(m, check)
	if err != nil {
		return err
	}
	var streams [2]cuda.Stream
	for i := range streams {
		if streams[i], err = c.NewStream(); err != nil {
			return err
		}
		later(func() error { return c.DestroyStream(streams[i]) })
	}
	var events [3]cuda.Event
	for i := range events {
		if events[i], err = c.NewEvent(); err != nil {
			return err
		}
		later(func() error { return c.DestroyEvent(events[i]) })
	}
	before := cuda.HostBytes.Load()
	in, err := c.AllocHost(4 * numbers)
	if err != nil {
		return err
	}
	later(func() error {
		if got := cuda.HostBytes.Load() - before; got != 4*numbers {
			return fmt.Errorf("%d bytes are page-locked, want %d", got, 4*numbers)
		}
		err := c.FreeHost(in[:1])
		if got := cuda.HostBytes.Load() - before; got != 0 {
			return fmt.Errorf("%d bytes are page-locked after all were given back", got)
		}
		return err
	})
	blocks := (numbers + abi.CheckBlock - 1) / abi.CheckBlock
	out := make([]byte, 4*blocks)
	if err := c.RegisterHost(out); err != nil {
		return err
	}
	later(func() error { return c.UnregisterHost(out) })
	devIn, err := c.Alloc(uint64(len(in)))
	if err != nil {
		return err
	}
	later(func() error { return c.Free(devIn) })
	devOut, err := c.Alloc(uint64(len(out)))
	if err != nil {
		return err
	}
	later(func() error { return c.Free(devOut) })
	return sum(c, f, streams, events, in, out, devIn, devOut, blocks)
}

func sum(c *cuda.Context, f cuda.Function, streams [2]cuda.Stream, events [3]cuda.Event, in, out []byte, devIn, devOut cuda.Pointer, blocks int) error {
	want := make([]uint32, blocks)
	for i := range numbers {
		v := uint32(i * 2654435761)
		binary.LittleEndian.PutUint32(in[4*i:], v)
		want[i/abi.CheckBlock] += v
	}
	for i := range out {
		out[i] = 0xEE
	}
	steps := []func() error{
		func() error { return c.Set(devOut, 0x77, uint64(len(out)), streams[0]) },
		func() error { return c.Record(events[0], streams[0]) },
		func() error { return c.CopyIn(devIn, in, streams[0]) },
		func() error { return c.Record(events[1], streams[0]) },
		// The rest is on the other stream, behind the copy.
		func() error { return c.WaitEvent(streams[1], events[1]) },
		func() error {
			return c.Launch(f, cuda.Size{X: uint32(blocks)}, cuda.Size{X: abi.CheckBlock}, streams[1], uint64(devIn), numbers, uint64(devOut))
		},
		func() error { return c.CopyOut(out, devOut, streams[1]) },
		func() error { return c.Record(events[2], streams[1]) },
		func() error { return c.WaitReached(events[2]) },
		func() error { return c.Wait(streams[1]) },
		func() error {
			ms, err := c.Elapsed(events[0], events[2])
			if err == nil && (ms < 0 || ms > 60_000) {
				err = fmt.Errorf("%g ms elapsed", ms)
			}
			return err
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	for i, w := range want {
		if got := binary.LittleEndian.Uint32(out[4*i:]); got != w {
			return fmt.Errorf("block %d sums to %d, not %d", i, got, w)
		}
	}
	return nil
}

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
			if name != "cuDevicePrimaryCtxRelease_v2" && name != "cuCtxDestroy_v2" {
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
		require.EqualError(t, c.Launch(0, one, one, 0, make([]uint64, 29)...), "a kernel with 29 parameters: at most 28 are possible")
		return nil
	}))
}

// TestHostDriverWaits: the host driver does nothing before somebody waits, so
// that tests notice where it was not done.
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

// TestDo: the work has the device's context, and after that the thread has none.
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

// TestDoExit: work that ends its goroutine, as FailNow of a test does, makes no other hang.
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
		{Ordinal: 0, Name: "promwarp host device 0", PCIBusID: "0000:00:00.0", MemoryBytes: 12345, Capability: "7.5", Major: 7, Minor: 5, Multiprocessors: 1},
		{Ordinal: 1, Name: "promwarp host device 1", PCIBusID: "0000:01:00.0", MemoryBytes: 12345, Capability: "7.5", Major: 7, Minor: 5, Multiprocessors: 1},
	}, infos)
	_, err = d.Device(2)
	require.ErrorContains(t, err, "device 2: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101)")
}

func TestUnavailable(t *testing.T) {
	h := cudatest.Control(t)
	lib := cudatest.Library(t)
	for name, c := range map[string]struct {
		library, settings string
		reason            cuda.Reason
		text              string
	}{
		"no driver":        {"libnothing.so.1", "", cuda.NoDriver, "install NVIDIA's driver"},
		"not a driver":     {"libc.so.6", "", cuda.NoDriver, "libc.so.6 is not a CUDA driver"},
		"old driver":       {lib, "version=10020", cuda.OldDriver, "it supports CUDA 10.2, and promwarp needs 11.0; update it to version 450"},
		"no device":        {lib, "devices=0", cuda.NoDevice, "see whether nvidia-smi lists one"},
		"not permitted":    {lib, "cuInit:1=800", cuda.Forbidden, "cuInit: CUDA_ERROR_NOT_PERMITTED (800)"},
		"has its own user": {lib, "cuDevicePrimaryCtxRetain:1=46", cuda.Forbidden, "another process has it to itself"},
	} {
		t.Run(name, func(t *testing.T) {
			h.Reset()
			h.Configure(c.settings)
			err := useAll(c.library)
			var u *cuda.Unavailable
			require.ErrorAs(t, err, &u)
			require.Equal(t, c.reason, u.Reason)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestForbiddenFile(t *testing.T) {
	dir := t.TempDir()
	open := func(string) error { return &fs.PathError{Op: "open", Path: "/dev/nvidia0", Err: fs.ErrPermission} }
	require.NoError(t, cuda.ForbiddenFile(dir+"/nvidia*", open), "no such file")
	require.NoError(t, cuda.ForbiddenFile(dir, func(string) error { return nil }))
	err := cuda.CannotStart(errors.New("cuInit fails"), cuda.ForbiddenFile(dir, open))
	require.EqualError(t, err, "the GPU may not be used: open /dev/nvidia0: permission denied (cuInit fails); run promwarp as a user that may open /dev/nvidia*, give a container the device (docker run --gpus all), and see with nvidia-smi -q -d COMPUTE whether another process has it to itself")
}

func TestRelease(t *testing.T) {
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n":                "535.129.03",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (archlinux-builder@)\n": "580.95.05",
		"": "",
	} {
		require.Equal(t, want, cuda.ReleaseIn([]byte(text)))
	}
}
