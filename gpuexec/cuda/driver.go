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
	api     *api
	version int
}

// Open opens the driver's library and starts the driver. Where there is nothing
// to use the error is an *Unavailable.
func Open(path string) (*Driver, error) {
	lib, err := openLibrary(path)
	switch {
	case errors.Is(err, errNotBuilt):
		return nil, &Unavailable{NotBuilt, err}
	case err != nil:
		return nil, &Unavailable{NoDriver, err}
	}
	d := &Driver{api: &api{}}
	var missing error
	for c, name := range callNames {
		addr, err := lookup(lib, name)
		if err != nil && missing == nil {
			missing = err
		}
		d.api.addr[c] = addr
	}
	if d.api.addr[callInit] == 0 || d.api.addr[callDriverGetVersion] == 0 {
		return nil, &Unavailable{NoDriver, fmt.Errorf("%s is not a CUDA driver: %w", path, missing)}
	}
	var v int32
	if err := d.api.call(callDriverGetVersion, uintptr(unsafe.Pointer(&v))); err != nil {
		return nil, err
	}
	d.version = int(v)
	if d.version < minVersion {
		return nil, &Unavailable{OldDriver, fmt.Errorf("it supports CUDA %s, and promwarp needs %s", d.Version(), versionText(minVersion))}
	}
	if missing != nil {
		return nil, &Unavailable{OldDriver, missing}
	}
	if err := d.api.call(callInit, 0); err != nil {
		return nil, cannotStart(err, forbiddenFile("/dev/nvidia*", openDevice))
	}
	return d, nil
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
	if err := d.api.call(callDeviceGetCount, uintptr(unsafe.Pointer(&n))); err != nil {
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

// call is one function of the driver.
type call int

const (
	callInit call = iota
	callDriverGetVersion
	callGetErrorName
	callGetErrorString
	callDeviceGetCount
	callDeviceGet
	callDeviceGetName
	callDeviceGetPCIBusID
	callDeviceTotalMem
	callDeviceGetAttribute
	callPrimaryCtxSetFlags
	callPrimaryCtxRetain
	callPrimaryCtxRelease
	callCtxSetCurrent
	callModuleLoad
	callModuleUnload
	callModuleGetFunction
	callMemGetInfo
	callMemAlloc
	callMemFree
	callMemHostAlloc
	callMemFreeHost
	callMemHostRegister
	callMemHostUnregister
	callMemcpyHtoD
	callMemcpyDtoH
	callMemset
	callStreamCreate
	callStreamDestroy
	callStreamSynchronize
	callStreamWaitEvent
	callEventCreate
	callEventDestroy
	callEventRecord
	callEventSynchronize
	callEventElapsedTime
	callLaunchKernel
	numCalls
)

// callNames are the names that the driver's library exports. The suffix _v2 is
// what the macros of CUDA's header append.
var callNames = [numCalls]string{
	callInit:               "cuInit",
	callDriverGetVersion:   "cuDriverGetVersion",
	callGetErrorName:       "cuGetErrorName",
	callGetErrorString:     "cuGetErrorString",
	callDeviceGetCount:     "cuDeviceGetCount",
	callDeviceGet:          "cuDeviceGet",
	callDeviceGetName:      "cuDeviceGetName",
	callDeviceGetPCIBusID:  "cuDeviceGetPCIBusId",
	callDeviceTotalMem:     "cuDeviceTotalMem_v2",
	callDeviceGetAttribute: "cuDeviceGetAttribute",
	callPrimaryCtxSetFlags: "cuDevicePrimaryCtxSetFlags_v2",
	callPrimaryCtxRetain:   "cuDevicePrimaryCtxRetain",
	callPrimaryCtxRelease:  "cuDevicePrimaryCtxRelease_v2",
	callCtxSetCurrent:      "cuCtxSetCurrent",
	callModuleLoad:         "cuModuleLoadDataEx",
	callModuleUnload:       "cuModuleUnload",
	callModuleGetFunction:  "cuModuleGetFunction",
	callMemGetInfo:         "cuMemGetInfo_v2",
	callMemAlloc:           "cuMemAlloc_v2",
	callMemFree:            "cuMemFree_v2",
	callMemHostAlloc:       "cuMemHostAlloc",
	callMemFreeHost:        "cuMemFreeHost",
	callMemHostRegister:    "cuMemHostRegister_v2",
	callMemHostUnregister:  "cuMemHostUnregister",
	callMemcpyHtoD:         "cuMemcpyHtoDAsync_v2",
	callMemcpyDtoH:         "cuMemcpyDtoHAsync_v2",
	callMemset:             "cuMemsetD8Async",
	callStreamCreate:       "cuStreamCreate",
	callStreamDestroy:      "cuStreamDestroy_v2",
	callStreamSynchronize:  "cuStreamSynchronize",
	callStreamWaitEvent:    "cuStreamWaitEvent",
	callEventCreate:        "cuEventCreate",
	callEventDestroy:       "cuEventDestroy_v2",
	callEventRecord:        "cuEventRecord",
	callEventSynchronize:   "cuEventSynchronize",
	callEventElapsedTime:   "cuEventElapsedTime",
	callLaunchKernel:       "cuLaunchKernel",
}

// api holds the addresses of the driver's functions.
type api struct {
	addr [numCalls]uintptr
}

// call calls a function of the driver. Pointers among its arguments are given
// as uintptr(unsafe.Pointer(…)) in the call itself; what they point to is then
// kept where it is until the function returns.
//
//go:uintptrescapes
func (a *api) call(c call, args ...uintptr) error {
	if r := Result(int32(invoke(a.addr[c], args...))); r != success {
		return a.fail(c, r)
	}
	return nil
}
