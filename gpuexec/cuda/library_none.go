//go:build !linux || !(amd64 || arm64) || nogpu

package cuda

func openLibrary(string) (uintptr, error) { return 0, errNotBuilt }

func lookup(uintptr, string) (uintptr, error) { return 0, errNotBuilt }

func invoke(uintptr, ...uintptr) uintptr { panic("unreachable: no library was opened") }
