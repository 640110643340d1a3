package cuda

import ()

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
	callEventQuery
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
	callEventQuery:         "cuEventQuery",
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
