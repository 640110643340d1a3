// Package cudatest gives tests a CUDA driver: the host driver, which runs every
// kernel on the host and can be told to fail, or a real one.
package cudatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// libraryEnv names another driver library than the host driver, such as
// libcuda.so.1 on a machine with a GPU.
const libraryEnv = "PROMWARP_CUDA_LIBRARY"

// Real reports whether the tests run on a real GPU.
func Real() bool { return os.Getenv(libraryEnv) == cuda.Library }

// Library is the path of the driver library that tests are to use. The host
// driver is built first if it is not up to date.
func Library(t testing.TB) string {
	if path := os.Getenv(libraryEnv); path != "" {
		return path
	}
	path, err := build()
	require.NoError(t, err)
	return path
}

var build = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	folder := filepath.Join(root, ".build")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	// The tests of several packages may want it at once.
	lock, err := os.Create(filepath.Join(folder, "libcuda-host.lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if out, err := exec.Command("make", "-s", "-C", root, "hostdriver").CombinedOutput(); err != nil {
		return "", fmt.Errorf("the host driver was not built (make hostdriver): %w\n%s", err, out)
	}
	return filepath.Join(folder, "libcuda-host.so"), nil
})

// Open opens the driver for a test.
func Open(t testing.TB) *cuda.Driver {
	d, err := cuda.Open(Library(t))
	require.NoError(t, err)
	return d
}

// Device opens the first device for a test, which closes it at its end.
func Device(t testing.TB) *cuda.Device {
	dev, err := Open(t).Device(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

// Host controls the host driver. Only one test may use it at a time.
type Host struct {
	t         testing.TB
	configure func(string) int32
	// Reset takes back all settings and everything that is held.
	Reset func()
	// Calls counts the calls of a function since the last reset.
	Calls func(string) int
	// Held counts the contexts, modules, allocations, registrations, streams and
	// events that were not given back.
	Held func() int
}

// Control returns the control of the host driver, which is as new, and skips
// the test on a real GPU.
func Control(t testing.TB) *Host {
	if Real() {
		t.Skip("needs the host driver")
	}
	lib, err := purego.Dlopen(Library(t), purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	h := &Host{t: t}
	purego.RegisterLibFunc(&h.Reset, lib, "promwarp_host_reset")
	purego.RegisterLibFunc(&h.configure, lib, "promwarp_host_configure")
	purego.RegisterLibFunc(&h.Calls, lib, "promwarp_host_calls")
	purego.RegisterLibFunc(&h.Held, lib, "promwarp_host_held")
	h.Reset()
	t.Cleanup(h.Reset)
	return h
}

// Configure changes settings: devices=N, memory=BYTES, version=API version,
// capability=90, or NAME:N=CODE to make the N-th call of a function from now on
// return a code.
func (h *Host) Configure(settings string) {
	h.t.Helper()
	require.Zero(h.t, h.configure(settings), settings)
}
