package pinned

import (
	"syscall"
	"unsafe"
)

// hugePage is the size in bytes of the pages that useHugePages asks for.
const hugePage = 2 << 20

// useHugePages asks the system to take huge pages for memory that was not touched yet,
// and for what lies on the same pages: a few are found, cleared and locked sooner than
// a thousand small ones. Small ones do, too.
func useHugePages(b []byte) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	to := (from + uintptr(len(b)) + hugePage - 1) &^ (hugePage - 1)
	from &^= hugePage - 1
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_HUGEPAGE)
}
