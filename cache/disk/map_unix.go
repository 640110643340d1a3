//go:build unix

package disk

import (
	"os"
	"syscall"
)

// mapFile maps the first size bytes of f.
func mapFile(f *os.File, size int64) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
}

// unmap undoes mapFile.
func unmap(b []byte) error { return syscall.Munmap(b) }
