package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

func (a api) fail(name string, r Result) error {
	return &Error{
		Call: name, Code: r, Name: cmp.Or(a.describe("cuGetErrorName", r), "unknown CUDA error"),
		Text: cmp.Or(a.describe("cuGetErrorString", r), "the driver does not describe it"),
	}
}

func (a api) describe(name string, r Result) string {
	var s *byte
	if a[name] == 0 || Result(int32(invoke(a[name], uintptr(r), uintptr(unsafe.Pointer(&s))))) != success {
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

// Reason is why no device can be used.
type Reason string

const (
	NotBuilt  Reason = "not built"
	NoDriver  Reason = "no driver"
	OldDriver Reason = "old driver"
	NoDevice  Reason = "no device"
	Forbidden Reason = "forbidden"
)

var errNotBuilt = errors.New("this program was built without GPU support, which it has on Linux (amd64, arm64) unless built with the tag nogpu")

// Unavailable is the error of a machine whose devices, or one of them, cannot
// be used. Its text says what to do about it.
type Unavailable struct {
	Reason Reason
	Err    error
}

func (u *Unavailable) Error() string {
	switch u.Reason {
	case NotBuilt:
		return u.Err.Error()
	case NoDriver:
		return fmt.Sprintf("no NVIDIA driver: %v; install NVIDIA's driver, and give a container access to it (docker run --gpus all)", u.Err)
	case OldDriver:
		return fmt.Sprintf("the NVIDIA driver is too old: %v; update it to version %s or later", u.Err, minRelease)
	case NoDevice:
		return fmt.Sprintf("the NVIDIA driver finds no GPU: %v; see whether nvidia-smi lists one, and whether CUDA_VISIBLE_DEVICES hides it", u.Err)
	}
	return fmt.Sprintf("the GPU may not be used: %v; run promwarp as a user that may open /dev/nvidia*, give a container the device (docker run --gpus all), and see with nvidia-smi -q -d COMPUTE whether another process has it to itself", u.Err)
}

func (u *Unavailable) Unwrap() error { return u.Err }

// forbiddenFile looks for a device file that exists and may not be opened. The
// driver itself reports such a device as missing.
func forbiddenFile(pattern string, open func(path string) error) error {
	paths, _ := filepath.Glob(pattern)
	for _, p := range paths {
		if err := open(p); errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func openDevice(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// cannotStart says why cuInit failed.
func cannotStart(err error, forbidden error) error {
	switch {
	case forbidden != nil:
		return &Unavailable{Forbidden, fmt.Errorf("%w (%w)", forbidden, err)}
	case errors.Is(err, noDevice):
		return &Unavailable{NoDevice, err}
	case errors.Is(err, notPermitted), errors.Is(err, operatingSystem):
		return &Unavailable{Forbidden, err}
	}
	return fmt.Errorf("the NVIDIA driver does not start: %w; see whether nvidia-smi works", err)
}
