package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// rangeLibraries are NVIDIA's libraries through which programs tell profilers what
// they are doing (NVTX): that of CUDA 13 and of CUDA 12.9, and that of those before.
var rangeLibraries = []string{"libnvtx3interop.so", "libnvtx3interop.so.1", "libnvToolsExt.so.1", "libnvToolsExt.so"}

// ranges are the functions that begin and end a range of time.
type ranges struct{ start, end uintptr }

// annotating is what stages are told to, or nil.
var annotating atomic.Pointer[ranges]

// findRanges uses the first of rangeLibraries that there is.
var findRanges = sync.OnceFunc(func() {
	for _, path := range rangeLibraries {
		if Annotate(path) == nil {
			return
		}
	}
})

// Annotate tells profilers of stages through a library of NVTX from now on, or no
// more if path is empty. Opening a driver does so if the system has such a library.
func Annotate(path string) error {
	if path == "" {
		annotating.Store(nil)
		return nil
	}
	lib, err := openLibrary(path)
	if err != nil {
		return err
	}
	var r ranges
	var errs [2]error
	r.start, errs[0] = lookup(lib, "nvtxRangeStartA")
	r.end, errs[1] = lookup(lib, "nvtxRangeEnd")
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("%s is not a library of NVTX: %w", path, err)
	}
	annotating.Store(&r)
	return nil
}

// Stage is work that profilers show by its name.
type Stage struct{ name []byte }

// NewStage returns a stage.
func NewStage(name string) *Stage { return &Stage{append([]byte(name), 0)} }

// Do calls f, while which profilers see the stage. Where there is nobody to tell, that
// costs some nanoseconds.
func (s *Stage) Do(f func() error) error {
	r := annotating.Load()
	if r == nil {
		return f()
	}
	id := invoke(r.start, uintptr(unsafe.Pointer(&s.name[0])))
	defer invoke(r.end, id)
	return f()
}
