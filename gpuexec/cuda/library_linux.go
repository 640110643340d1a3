//go:build linux && (amd64 || arm64) && !nogpu

package cuda

import (
	"runtime"

	"github.com/ebitengine/purego"
)

// openLibrary loads a shared library. It stays loaded: the driver does not
// survive being unloaded.
func openLibrary(path string) (uintptr, error) {
	// The text of an error is kept for the thread that got it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func lookup(library uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(library, name)
}

//go:uintptrescapes
func invoke(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}
