package cuda

import (
	"errors"
	"fmt"
	"unsafe"
)

// Result is a result code of the driver (CUresult).
type Result int32

// The codes that promwarp tells apart.
const (
	success           Result = 0
	OutOfMemory       Result = 2
	deviceUnavailable Result = 46
	noDevice          Result = 100
	operatingSystem   Result = 304
	notReady          Result = 600
	illegalAddress    Result = 700
	launchFailed      Result = 719
	notPermitted      Result = 800
)

// Lost reports whether an error is one after which this process can do no more
// with the device: a kernel went wrong, and from then on every call fails, opening
// the device again, too.
func Lost(err error) bool {
	return errors.Is(err, illegalAddress) || errors.Is(err, launchFailed)
}

// Error lets a code be found with errors.Is.
func (r Result) Error() string { return fmt.Sprintf("CUDA error %d", int32(r)) }

// Error is what a call of the driver returned.
type Error struct {
	Call string // the driver's function
	Code Result
	Name string // of the code, such as CUDA_ERROR_OUT_OF_MEMORY
	Text string // the driver's description of it
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, int32(e.Code), e.Text)
}

func (e *Error) Unwrap() error { return e.Code }

func (a *api) fail(c call, r Result) error {
	e := &Error{Call: callNames[c], Code: r, Name: "unknown CUDA error", Text: "the driver does not describe it"}
	if s := a.describe(callGetErrorName, r); s != "" {
		e.Name = s
	}
	if s := a.describe(callGetErrorString, r); s != "" {
		e.Text = s
	}
	return e
}

func (a *api) describe(c call, r Result) string {
	var s *byte
	if a.addr[c] == 0 || Result(int32(invoke(a.addr[c], uintptr(r), uintptr(unsafe.Pointer(&s))))) != success {
		return ""
	}
	return text(s)
}

// text copies a string of C.
func text(s *byte) string {
	if s == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}
