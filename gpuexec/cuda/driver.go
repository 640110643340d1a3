// Package cuda is a thin binding of the CUDA driver API: what promwarp calls of
// it, and no more. It needs neither cgo nor the CUDA toolkit; the driver's
// library, libcuda.so.1, is looked for when Open is called.
//
// Every call for a device is made where its context is the thread's: see Device.Do.
package cuda

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"unsafe"
)

// Library is the driver's library.
const Library = "libcuda.so.1"

// minVersion is the oldest version of the driver API that has all of callNames,
// as 1000*major + 10*minor, and minRelease the first driver that has it.
const (
	minVersion = 11000
	minRelease = "450"
)

// Driver is an opened driver.
type Driver struct {
	api     api
	version int
}

// Open opens the driver's library and starts the driver. Where there is nothing
// to use the error is an *Unavailable.
func Open(path string) (*Driver, error) {
	d, err := Load(path)
	if err == nil {
		err = d.Start()
	}
	return d, err
}

// Load opens the driver's library.
func Load(path string) (*Driver, error) {
	lib, err := openLibrary(path)
	switch {
	case errors.Is(err, errNotBuilt):
		return nil, &Unavailable{NotBuilt, err}
	case err != nil:
		return nil, &Unavailable{NoDriver, err}
	}
	d := &Driver{api: api{}}
	var missing error
	for _, name := range callNames {
		addr, err := lookup(lib, name)
		if err != nil && missing == nil {
			missing = err
		}
		d.api[name] = addr
	}
	if d.api["cuInit"] == 0 || d.api["cuDriverGetVersion"] == 0 {
		return nil, &Unavailable{NoDriver, fmt.Errorf("%s is not a CUDA driver: %w", path, missing)}
	}
	var v int32
	if err := d.api.call("cuDriverGetVersion", uintptr(unsafe.Pointer(&v))); err != nil {
		return nil, err
	}
	d.version = int(v)
	if d.version < minVersion {
		return nil, &Unavailable{OldDriver, fmt.Errorf("it supports CUDA %s, and promwarp needs %s", d.Version(), versionText(minVersion))}
	}
	if missing != nil {
		return nil, &Unavailable{OldDriver, missing}
	}
	return d, nil
}

// Start starts the driver, which takes some 150 ms.
func (d *Driver) Start() error {
	if err := d.api.call("cuInit", 0); err != nil {
		return cannotStart(err, forbiddenFile("/dev/nvidia*", openDevice))
	}
	return nil
}

// Version is the version of the driver API, such as "12.8".
func (d *Driver) Version() string { return versionText(d.version) }

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

var releasePattern = regexp.MustCompile(`Kernel Module(?: for \S+)?\s+(\d[\d.]*)`)

// Release is the version of the driver as its packages have it, such as
// "580.95.05", or empty where the kernel does not tell.
func Release() string {
	b, _ := os.ReadFile("/proc/driver/nvidia/version")
	return releaseIn(b)
}

func releaseIn(b []byte) string {
	if m := releasePattern.FindSubmatch(b); m != nil {
		return string(m[1])
	}
	return ""
}

// Devices returns the properties of all devices. Where there are none the error
// is an *Unavailable.
func (d *Driver) Devices() ([]Info, error) {
	var n int32
	if err := d.api.call("cuDeviceGetCount", uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, &Unavailable{NoDevice, fmt.Errorf("it counts 0 devices")}
	}
	infos := make([]Info, n)
	for i := range infos {
		var err error
		if infos[i], _, err = d.info(i); err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
	}
	return infos, nil
}

// callNames are the functions of the driver that promwarp calls, as its library exports them. The suffix
// _v2 is what the macros of CUDA's header append.
var callNames = []string{
	"cuInit",
	"cuDriverGetVersion",
	"cuGetErrorName",
	"cuGetErrorString",
	"cuDeviceGetCount",
	"cuDeviceGet",
	"cuDeviceGetName",
	"cuDeviceGetPCIBusId",
	"cuDeviceTotalMem_v2",
	"cuDeviceGetAttribute",
	"cuDevicePrimaryCtxSetFlags_v2",
	"cuDevicePrimaryCtxRetain",
	"cuDevicePrimaryCtxRelease_v2",
	"cuCtxSetCurrent",
	"cuCtxCreate_v2",
	"cuCtxDestroy_v2",
	"cuModuleLoadDataEx",
	"cuModuleUnload",
	"cuModuleGetFunction",
	"cuMemGetInfo_v2",
	"cuMemAlloc_v2",
	"cuMemFree_v2",
	"cuMemHostAlloc",
	"cuMemFreeHost",
	"cuMemHostRegister_v2",
	"cuMemHostUnregister",
	"cuMemcpyHtoDAsync_v2",
	"cuMemcpyDtoHAsync_v2",
	"cuMemsetD8Async",
	"cuStreamCreate",
	"cuStreamDestroy_v2",
	"cuStreamSynchronize",
	"cuStreamWaitEvent",
	"cuEventCreate",
	"cuEventDestroy_v2",
	"cuEventRecord",
	"cuEventSynchronize",
	"cuEventElapsedTime",
	"cuLaunchKernel",
}

// api holds the addresses of the driver's functions, by their names.
type api map[string]uintptr

// call calls a function of the driver. Pointers among its arguments are given
// as uintptr(unsafe.Pointer(…)) in the call itself; what they point to is then
// kept where it is until the function returns.
//
//go:uintptrescapes
func (a api) call(name string, args ...uintptr) error {
	if r := Result(int32(invoke(a[name], args...))); r != success {
		return a.fail(name, r)
	}
	return nil
}
